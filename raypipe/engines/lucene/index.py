"""A Lucene index as Anserini builds it, in row order, whose bytes depend only on the passages.

Its analyzer is the one that Anserini chooses for the language. Lucene records the time, the kernel
and the Java build in a segment's description (`.si`), in the order of a map that Java shuffles in
each process; the list of files has such an order too. These parts are taken out.

Source: Lucene99SegmentInfoFormat and CodecUtil, Lucene 9.9.
"""

import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.engines.lucene.java import Lucene, anserini_jar, find_java
from raypipe.errors import CorruptError, IncompleteError
from raypipe.isolation import child_environment, python_command
from raypipe.storage.payloads import writing

ENGLISH = "en"
LANGUAGE_FILE = "raypipe-language.txt"
"""In the folder of an index that is not English: the language."""
IMPACTS = "impacts"
"""In place of a language: a text is words with whole numbers, `7|120 19|4`, which are stored as the
words' frequencies."""
_BLANKS = ("ha", "so", "sw", "yo")
"""Languages that Anserini cuts at blanks, without an analyzer of their own."""
ROWS_FILE = "raypipe-rows.npy"
"""Lucene document number -> passage row, in a file beside the index, which has no such field."""
BUFFER_MEGABYTES = 1024
"""Lucene's buffer for indexing: half of its heap. No byte of the index depends on it."""


def index_settings(language: str = ENGLISH) -> dict[str, str]:
    """The settings on which the bytes of an index depend, apart from the passages."""
    if language == IMPACTS:
        return {"anserini": anserini_jar().name}
    settings = {"anserini": anserini_jar().name, "store": "positions docvectors raw"}
    return settings if language == ENGLISH else {**settings, "language": language}


def build_index(
    passages: Callable[[], Iterable[pa.Table]],
    folder: Path,
    *,
    language: str = ENGLISH,
    beat: Callable[[], None] = lambda: None,
    buffer_megabytes: int = BUFFER_MEGABYTES,
) -> int:
    """The number of passages indexed into `folder`, which must not exist yet.

    Fields and analysis are those of Anserini's IndexCollection for the language; positions, vectors
    and raw text are stored, so that pyserini's own searchers can use them (of impacts, only these).
    One thread, one segment, in row order, so that Lucene breaks ties by row; every document's
    stored id is compared with the id of its row. Passages without a visible character are not
    indexed (Anserini refuses them) and are never found.

    Args:
        passages: called twice for all passages in row order: once to index them, once to compare.
        folder: where the index is written.
        language: one of `vocabulary.Language`, or IMPACTS.
        beat: called often during the work.
        buffer_megabytes: how much Lucene holds before it writes a segment; no byte of the index
            depends on it.

    Raises:
        IncompleteError: Lucene failed (with the end of its output), or a document is not the
            passage of its row. Do not use `folder` then.
    """
    texts, flushed = (folder.with_name(f"{folder.name}-{part}") for part in ("input", "flushed"))
    ids, log = (folder.with_name(f"{folder.name}-{part}") for part in ("ids.jsonl", "log.txt"))
    texts.mkdir()
    rows = _write_input(passages(), texts / "passages.jsonl")
    _run_lucene([texts, flushed, folder, ids, buffer_megabytes, language], log, beat)
    compare_ids(ids, rows, passages())
    for path in (texts, flushed):
        shutil.rmtree(path)
    for path in (ids, log, folder / "write.lock"):
        path.unlink(missing_ok=True)
    make_timeless(folder)
    with writing(folder / ROWS_FILE):
        np.save(folder / ROWS_FILE, rows)
    if language != ENGLISH:
        with writing(folder / LANGUAGE_FILE):
            (folder / LANGUAGE_FILE).write_text(language)
    return len(rows)


def _write_input(batches: Iterable[pa.Table], path: Path) -> NDArray[np.int64]:
    rows = array("q")  # 8 bytes each; a list would take 40
    row = 0
    with path.open("w", encoding="utf-8") as out:
        for batch in batches:
            ids, texts = batch["passage_id"].to_pylist(), batch["text"].to_pylist()
            for passage_id, text in zip(ids, texts, strict=True):
                if text.strip(_JAVA_BLANKS):
                    out.write(json.dumps({"id": passage_id, "contents": text}) + "\n")
                    rows.append(row)
                row += 1
    return np.array(rows, np.int64)


_JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""Characters that Java's String.trim removes; a text of only these is empty for Anserini."""


def _run_lucene(arguments: Sequence[object], log: Path, beat: Callable[[], None]) -> None:
    find_java()  # report a missing Java in this process
    command = python_command("raypipe.engines.lucene.build", *map(str, arguments))
    with log.open("wb") as out:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=child_environment(),
            preexec_fn=_die_with_parent,
        )
        while child.poll() is None:
            beat()
            time.sleep(0.05)
    if child.returncode != 0:
        said = log.read_text(errors="replace")[-2000:]
        raise IncompleteError(f"Lucene: indexing ended with {child.returncode}: {said}")


def _die_with_parent() -> None:
    """Make a killed worker leave no JVM behind (Linux; elsewhere the JVM ends after its work)."""
    import ctypes

    if os.uname().sysname == "Linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def analyzer_of(lucene: Lucene, language: str) -> Any:
    """The analyzer of a language, one of `vocabulary.Language`, or of IMPACTS."""
    autoclass, _ = lucene
    if language == IMPACTS:
        none = autoclass("java.util.HashMap")
        made = autoclass("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
        made = made.withTokenizer("whitespace", none())
        return made.addTokenFilter("delimitedTermFrequency", none()).build()
    if language == ENGLISH:
        return autoclass("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    if language in _BLANKS:
        return autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    return autoclass("io.anserini.analysis.AnalyzerMap").getLanguageSpecificAnalyzer(language)


def language_of(folder: Path) -> str:
    """The language of an index."""
    path = folder / LANGUAGE_FILE
    return path.read_text() if path.exists() else ENGLISH


_FOOTER_BYTES = 16


def make_timeless(folder: Path) -> None:
    """Rewrite every `.si`: no diagnostics, sorted files and attributes, a corrected checksum.

    Raises:
        CorruptError: a file does not have the layout of Lucene 9.9.
    """
    for path in sorted(folder.glob("*.si")):
        path.write_bytes(_rewritten(path.name, path.read_bytes()))


def _rewritten(name: str, data: bytes) -> bytes:
    fixed = _end_of_fixed_part(data)
    # Lucene 9.9 added one byte (has blocks) after the fixed part; the right layout is the one that
    # ends exactly at the footer.
    for start in (fixed, fixed + 1):
        reader = _Reader(data, start)
        try:
            reader.strings(2)
            files, attributes = reader.strings(1), reader.strings(2)
            sort_fields = reader.number()
        except (IndexError, UnicodeDecodeError):
            continue
        if reader.at == len(data) - _FOOTER_BYTES and sort_fields == 0:
            body = (
                data[:start] + _strings([]) + _strings(sorted(files)) + _strings(sorted(attributes))
            )
            body += b"\0" + data[-_FOOTER_BYTES:-8]
            return body + zlib.crc32(body).to_bytes(8, "big")
    raise CorruptError(f"{name}: not a segment description of Lucene 9.9 without index sort")


def _end_of_fixed_part(data: bytes) -> int:
    codec_length = data[4]
    at = 5 + codec_length + 4 + 16  # magic, name, version, id
    at += 1 + data[at]  # suffix
    at += 12  # version of Lucene
    at += 13 if data[at] else 1  # minimum version, if there is one
    return at + 4 + 1  # documents, compound file


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def number(self) -> int:
        """A variable-length int: seven bits per byte, lowest first."""
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def strings(self, width: int) -> list[tuple[str, ...]]:
        """A set (width 1) or map (width 2) of strings, in the order of the file."""
        return [tuple(self._string() for _ in range(width)) for _ in range(self.number())]

    def _string(self) -> str:
        length = self.number()
        start, self.at = self.at, self.at + length
        return self._data[start : self.at].decode()


def _strings(entries: list[tuple[str, ...]]) -> bytes:
    texts = [text.encode() for entry in entries for text in entry]
    return _number(len(entries)) + b"".join(_number(len(text)) + text for text in texts)


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


BLOCK = 1 << 20  # bytes


def pack_folder(folder: Path, packed: Path) -> None:
    """Write the folder's files as one uncompressed tar; the same files give the same bytes."""
    with tarfile.open(packed, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.iterdir()):
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as stream:
                archive.addfile(entry, stream)


def unpack_folder(packed: Path, folder: Path) -> None:
    """Write the files of `pack_folder` into a new folder; refuses names outside it (ValueError)."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(packed) as archive:
        for entry in archive:  # not `filter="data"`, which Python 3.11.4 was the first to have
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is None or Path(entry.name).name != entry.name:
                raise ValueError(f"{packed}: expected plain files, found {entry.name!r}")
            with content, (folder / entry.name).open("wb") as file:
                shutil.copyfileobj(content, file, BLOCK)


def compare_ids(ids: Path, rows: NDArray[np.int64], batches: Iterable[pa.Table]) -> None:
    """Returns nothing if document number i has the id of the passage at rows[i], for every i.

    Args:
        ids: JSON lines, lists of the stored ids in the order of the documents.
        rows: int64, ascending.
        batches: all passages in row order.

    Raises:
        IncompleteError: names the first document that differs.
    """
    with ids.open(encoding="utf-8") as lines:
        stored = (name for line in lines for name in json.loads(line))
        for document, expected in enumerate(_expected(rows, batches)):
            stored_id = next(stored, None)
            if stored_id != expected:
                raise IncompleteError(
                    f"Lucene: document {document}: expected passage {expected!r} of row "
                    f"{rows[document]}, found {_shown(stored_id)}; the index is not kept. Run again"
                )
        surplus = next(stored, None)
        if surplus is not None:
            raise IncompleteError(
                f"Lucene: document {len(rows)}: expected {len(rows)} documents in all, found "
                f"also passage {surplus!r}; the index is not kept. Run again"
            )


def _expected(rows: NDArray[np.int64], batches: Iterable[pa.Table]) -> Iterator[str]:
    """The ids of the passages at `rows`; holds one batch in memory."""
    start = first = 0
    for batch in batches:
        stop = start + batch.num_rows
        last = int(np.searchsorted(rows, stop))
        yield from batch["passage_id"].take(rows[first:last] - start).to_pylist()
        start, first = stop, last


def _shown(name: str | None) -> str:
    return "no document" if name is None else f"passage {name!r}"
