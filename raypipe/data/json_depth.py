"""JSON of two levels, `{query id: {passage id: value}}`, read one query at a time."""

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from raypipe.errors import InputError

Entries = list[tuple[str, Any]]
MAX_CHARACTERS = 64 << 20
"""Of one query's entries; a longer one is no run and no judgements."""
_BLANKS = re.compile(r"[ \t\r\n]*")


def nested_entries(chunks: Iterable[bytes], name: str) -> Iterator[tuple[str, Entries]]:
    """(query id, its (passage id, value) in the order of the file); little of it is in memory.

    Values are as in the file. A passage that a query has twice comes twice.

    Args:
        chunks: the file's bytes, in order.
        name: the file in messages.

    Raises:
        InputError: not UTF-8, not such an object, or an id with half a surrogate pair, with the
            number or the name of the first wrong query.
    """
    text = _Text(chunks, name)
    text.expect("{", "{query id: {passage id: value}}")
    number = 0
    while not (number == 0 and text.skip("}")):
        number += 1
        what = f"entry {number:,}"
        query = text.value(what)
        if not isinstance(query, str):
            raise InputError(f"{name}: {what}: expected a query id in quotes, found {query!r}")
        what = f"query {query!r}"
        text.expect(":", what)
        if text.next() != "{":
            raise InputError(f"{name}: {what}: expected {{passage id: value}}, found another value")
        found: Entries = text.value(what)
        _refuse_halves([query, *(passage for passage, _ in found)], f"{name}: {what}")
        yield query, found
        if not text.skip(","):
            text.expect("}", what)
            break
    if rest := text.next():
        raise InputError(f"{name}: expected the end of the file after its last }}, found {rest!r}")


def _refuse_halves(ids: list[str], where: str) -> None:
    r"""Returns nothing if no id has half a surrogate pair, a JSON "\ud800", which is no UTF-8."""
    try:
        "".join(ids).encode()
    except UnicodeEncodeError:
        half = next(each for each in ids if re.search("[\ud800-\udfff]", each))
        raise InputError(f"{where}: half a surrogate pair in {half!r:.80}; mend this id") from None


class _Text:
    """The file's text, of which what has been read is forgotten."""

    def __init__(self, chunks: Iterable[bytes], name: str) -> None:
        self._chunks, self._name = iter(chunks), name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._held, self._at, self._ended = "", 0, False
        self._decode = json.JSONDecoder(object_pairs_hook=list).raw_decode

    def next(self) -> str:
        """The next character that is no blank; "" at the end."""
        while True:
            match = _BLANKS.match(self._held, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._held):
                return self._held[self._at]
            if not self._more():
                return ""

    def skip(self, character: str) -> bool:
        """Whether the next character is this one, which is then behind."""
        if self.next() != character:
            return False
        self._at += 1
        return True

    def expect(self, character: str, where: str) -> None:
        """Go behind this character, which must come next."""
        if not self.skip(character):
            found = repr(self.next()) if self.next() else "the end of the file"
            raise InputError(f"{self._name}: {where}: expected {character}, found {found}")

    def value(self, where: str) -> Any:
        """The next value, an object as a list of pairs."""
        self.next()
        while True:
            try:
                found, self._at = self._decode(self._held, self._at)
                return found
            except (ValueError, RecursionError) as error:
                if len(self._held) - self._at > MAX_CHARACTERS:
                    raise InputError(
                        f"{self._name}: {where}: expected at most {MAX_CHARACTERS:,} characters, "
                        "found more"
                    ) from None
                if not self._more():
                    raise InputError(f"{self._name}: {where}: not valid JSON ({error})") from None

    def _more(self) -> bool:
        """Hold as much again as is held, at least; False at the end."""
        if self._ended:
            return False
        parts, wanted = [self._held[self._at :]], max(1, len(self._held) - self._at)
        while wanted > 0 and not self._ended:
            chunk = next(self._chunks, b"")
            self._ended = not chunk
            try:
                part = self._decoder.decode(chunk, final=self._ended)
            except UnicodeDecodeError as error:
                raise InputError(f"{self._name}: not UTF-8 ({error})") from None
            parts.append(part)
            wanted -= len(part)
        self._held, self._at = "".join(parts), 0
        return True
