"""Splits triples of texts (MS MARCO's triples.train.small) into texts and triples of ids."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from raypipe.data.records import lines
from raypipe.data.triple_forms import Seen, names_columns, remedy_of
from raypipe.errors import InputError
from raypipe.storage.compression import open_binary
from raypipe.storage.files import replacing

FILES = ("passages.tsv", "queries.tsv", "triples.tsv")


@dataclass
class _Texts:
    """Ids of texts in order of first appearance; holds a 16-byte hash of each text."""

    file: BinaryIO
    ids: dict[bytes, int] = field(default_factory=dict)

    def id_of(self, text: bytes) -> int:
        """The text's id; writes the text if it is new."""
        key = hashlib.blake2b(text, digest_size=16).digest()
        known = self.ids.get(key)
        if known is None:
            known = self.ids[key] = len(self.ids)
            self.file.write(b"%d\t%b\n" % (known, text))
        return known


def split_triples(path: Path, folder: Path) -> int:
    """The number of triples, written as passages.tsv, queries.tsv and triples.tsv (three ids).

    The files are written under other names and then moved into place, so that existing ones are
    complete.

    Args:
        path: lines of query, relevant and irrelevant passage, tabs between; plain or compressed.
        folder: the target folder; created if missing.

    Raises:
        InputError: a line without exactly three columns, or with an empty one; a first line that
            names the columns; a column of numbers or labels alone, or ids in the place of texts;
            bytes that are not UTF-8.
    """
    number, seen = 0, Seen()
    passage_file, query_file, triple_file = (folder / name for name in FILES)
    # The triples are opened first, so that they are moved last, after the texts that their ids
    # name.
    with (
        replacing(triple_file) as triples,
        replacing(query_file) as queries,
        replacing(passage_file) as passages,
    ):
        of_passage, of_query = _Texts(passages), _Texts(queries)
        for columns in _lines(path):
            number += 1
            seen.add(columns)
            query, relevant, other = columns
            rows = of_query.id_of(query), of_passage.id_of(relevant), of_passage.id_of(other)
            triples.write(b"%d\t%d\t%d\n" % rows)
        if not number:
            raise InputError(f"{path}: expected triples of texts, found no line")
        if (problem := seen.problem()) is not None:
            raise InputError(f"{path}: {problem}")
    return number


def _lines(path: Path) -> Iterator[list[bytes]]:
    with open_binary(path) as stream:
        for number, line in enumerate(lines(stream, name=str(path)), start=1):
            columns = line.split(b"\t")
            if len(columns) != 3 or not all(column.strip() for column in columns):
                raise InputError(
                    f"{path}: line {number:,}: expected query, relevant and irrelevant passage "
                    f"with tabs between, found {len(columns)} columns"
                    + (
                        remedy_of(line, of_ids=False)
                        if len(columns) != 3
                        else ", one of them empty"
                    )
                )
            if number == 1 and names_columns(line):
                raise InputError(
                    f"{path}: line 1: expected texts, found the names of columns; remove the line, "
                    "and write query, relevant and irrelevant passage in this order"
                )
            try:
                line.decode()
            except UnicodeDecodeError as error:
                raise InputError(f"{path}: line {number:,}: not UTF-8: {error.reason}") from None
            yield columns
