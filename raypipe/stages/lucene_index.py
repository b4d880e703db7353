"""A Lucene index as Anserini builds it, with bytes that depend on the passages alone."""

import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from raypipe.errors import IncompleteError
from raypipe.stages.lucene_java import QUIET, anserini_jar, find_java
from raypipe.stages.lucene_segment import make_timeless

ROWS_FILE = "raypipe-rows.npy"
"""Lucene document number -> passage row; kept beside the index, which has no such field."""


def index_settings() -> dict[str, str]:
    """What the bytes of an index depend on beside the passages."""
    return {"anserini": anserini_jar().name, "store": "positions docvectors raw"}


def build_index(
    batches: Iterable[pa.Table], folder: Path, *, beat: Callable[[], None] = lambda: None
) -> int:
    """The number of passages indexed into `folder`, which must not exist.

    Fields and analysis are Anserini's IndexCollection with its English defaults; positions,
    vectors and raw text are stored, so that pyserini's own searchers can use them. One thread,
    one segment, in row order, so that Lucene breaks ties by row. Passages without a visible
    character are not indexed (Anserini refuses them) and are never found.

    Raises:
        IncompleteError: the Java process failed; its last words are told.
    """
    texts = folder.with_name(folder.name + "-input")
    texts.mkdir()
    rows = _write_input(batches, texts / "passages.jsonl")
    _run_java(texts, folder, beat)
    shutil.rmtree(texts)
    make_timeless(folder)
    (folder / "write.lock").unlink(missing_ok=True)
    np.save(folder / ROWS_FILE, np.array(rows, np.int64))
    return len(rows)


def pack_folder(folder: Path, packed: Path) -> None:
    """The folder's files as one uncompressed tar, the same bytes for the same files."""
    with tarfile.open(packed, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.iterdir()):
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as stream:
                archive.addfile(entry, stream)


def unpack_folder(packed: Path, folder: Path) -> None:
    """The files of `pack_folder`, in a folder that is made; refuses names that leave it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")


def _write_input(batches: Iterable[pa.Table], path: Path) -> list[int]:
    rows: list[int] = []
    row = 0
    with path.open("w", encoding="utf-8") as out:
        for batch in batches:
            ids, texts = batch["passage_id"].to_pylist(), batch["text"].to_pylist()
            for passage_id, text in zip(ids, texts, strict=True):
                if text.strip(_JAVA_BLANKS):
                    out.write(json.dumps({"id": passage_id, "contents": text}) + "\n")
                    rows.append(row)
                row += 1
    return rows


_JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's String.trim removes; a text of nothing else is empty to Anserini."""


def _run_java(texts: Path, folder: Path, beat: Callable[[], None]) -> None:
    # tests.seed makes Lucene's segment ids a function of their number instead of the clock.
    command = [str(find_java().program), "-Xmx2g", *QUIET, "-Dtests.seed=1"]
    command += ["-cp", str(anserini_jar()), "io.anserini.index.IndexCollection"]
    command += ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"]
    command += ["-input", str(texts), "-index", str(folder), "-threads", "1"]
    command += ["-storePositions", "-storeDocvectors", "-storeRaw", "-optimize"]
    command += ["-memoryBuffer", "1024"]
    log = texts.with_suffix(".log")
    with log.open("wb") as out:
        java = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, preexec_fn=_die_with_parent
        )
        while java.poll() is None:
            beat()
            time.sleep(0.05)
    if java.returncode != 0 or not any(folder.glob("segments_*")):
        said = log.read_text(errors="replace")[-2000:]
        raise IncompleteError(f"Lucene: indexing ended with {java.returncode}: {said}")


def _die_with_parent() -> None:
    """A killed worker leaves no JVM behind (Linux; elsewhere the JVM ends with its work)."""
    import ctypes

    if os.uname().sysname == "Linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
