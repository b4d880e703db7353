"""A Lucene index as Anserini builds it, in row order, whose bytes depend only on the passages."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.engines.lucene.analyzers import ENGLISH
from raypipe.engines.lucene.analyzers import FILE as LANGUAGE_FILE
from raypipe.engines.lucene.check import compare_ids
from raypipe.engines.lucene.java import anserini_jar, find_java
from raypipe.engines.lucene.segment import make_timeless
from raypipe.errors import IncompleteError
from raypipe.package import FOLDER
from raypipe.storage.payloads.writing import writing

ROWS_FILE = "raypipe-rows.npy"
"""Lucene document number -> passage row, in a file beside the index, which has no such field."""
BUFFER_MEGABYTES = 1024
"""Lucene's buffer for indexing: half of its heap. No byte of the index depends on it."""


def index_settings(language: str = ENGLISH) -> dict[str, str]:
    """What the bytes of an index depend on, apart from the passages."""
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
    and raw text are stored, so that pyserini's own searchers can use them. One thread,
    one segment, in row order, so that Lucene breaks ties by row; every document's stored id is
    compared with the id of its row. Passages without a visible character are not indexed
    (Anserini refuses them) and are never found.

    Args:
        passages: called twice for all passages in row order: once to index them, once to compare.
        folder: where the index is written.
        language: one of `vocabulary.Language`.
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
"""What Java's String.trim removes; a text of only these is empty for Anserini."""


def _run_lucene(arguments: Sequence[object], log: Path, beat: Callable[[], None]) -> None:
    find_java()  # report a missing Java in this process
    command = [sys.executable, "-m", "raypipe.engines.lucene.build", *map(str, arguments)]
    here = str(FOLDER.parent)  # this package, wherever it is installed
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    with log.open("wb") as out:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path},
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
