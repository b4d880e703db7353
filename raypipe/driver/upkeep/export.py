"""Writes a finished store as files that other tools read."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from raypipe import schema
from raypipe.driver.upkeep.exported_runs import OTHERS
from raypipe.driver.upkeep.exported_tables import (
    write_embeddings,
    write_foreign_run,
    write_pairs,
    write_passages,
    write_run,
)
from raypipe.driver.upkeep.upstream import row_ids, stored_of, upstream
from raypipe.driver.upkeep.which_store import which_store
from raypipe.engines.lucene.index import ROWS_FILE, unpack_folder
from raypipe.errors import InputError
from raypipe.regular import check_folder
from raypipe.storage.files import appear, folder_beside
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored

FORMS = ("numpy", "faiss", "pyserini", "parquet", *OTHERS)


def export(store: Path | str, to: str, out: Path, *, generation: int | None = None) -> int:
    """The number of rows exported into the folder `out`, which appears complete or not at all.

    numpy: embeddings.npy (fp16 [rows, dim]) and ids.txt. faiss: `index` (flat, inner product) and
    `docid`, pyserini's folder of a dense index; or the index of an `ann` stage, and `docid`.
    pyserini: a Lucene folder, or a collection as JSON lines. parquet: a collection, embeddings, a
    run or a duoBERT model's pairs, with original ids. ranx and pyterrier: a run in their columns.

    Args:
        store: STORES/NAME or STORES/NAME/FINGERPRINT; see `which_store`.
        to: one of `FORMS`.
        out: a new or empty folder.
        generation: the number of the generation to read; by default the current one.

    Raises:
        InputError: no such store or generation, a form that does not suit it, or a target that is
            not empty.
        IncompleteError: the store is not complete.
    """
    if to not in FORMS:
        raise InputError(f"--to {to}: expected one of {', '.join(FORMS)}")
    check_folder(out, "--out ")
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: not empty; name a new folder")
    with which_store(store, generation) as found:
        return _export(*found, to, out)


def _export(stores: Storage, name: str, fingerprint: str, to: str, out: Path) -> int:
    stored = stored_of(stores, name, fingerprint)
    spec = stored.spec
    if (spec.produces, to) not in _WRITERS:
        forms = sorted(form for produces, form in _WRITERS if produces == spec.produces)
        raise InputError(
            f"{name}: a store of {spec.produces or spec.stage} can be exported to: "
            f"{', '.join(forms) or 'nothing'}"
        )
    with folder_beside(out) as partial:
        num_rows = _WRITERS[spec.produces, to](stores, spec, stored, partial)
        appear(partial, out)
    return num_rows


def _numpy(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    dim = stored.vectors(stored.manifest.records[0]).shape[1]
    shape = (stored.num_rows, dim)
    rows = np.lib.format.open_memmap(out / "embeddings.npy", "w+", np.float16, shape)
    for record in stored.manifest.records:
        rows[record.shard.start : record.shard.stop] = stored.vectors(record)
    rows.flush()
    _write_lines(out / "ids.txt", row_ids(stores, spec))
    return stored.num_rows


def _faiss(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    import faiss

    index = faiss.IndexFlatIP(stored.vectors(stored.manifest.records[0]).shape[1])
    for record in stored.manifest.records:
        index.add(stored.vectors(record).astype(np.float32))
    faiss.write_index(index, str(out / "index"))
    _write_lines(out / "docid", row_ids(stores, spec))
    return stored.num_rows


def _graph(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """The graph as it is stored; its ids are rows, that is lines of docid from 0."""
    shutil.copyfile(stored.path(stored.manifest.records[0]), out / "index")
    _write_lines(out / "docid", row_ids(stores, upstream(stores, spec, "embeddings")[0]))
    return stored.num_rows


def _lists(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """The centres with all codes as one index of faiss; its ids are rows, as those of a graph."""
    from raypipe.engines.ann import write_index
    from raypipe.stages.ann.opened import opened_lists

    encoded, embeddings = upstream(stores, spec, "embeddings")
    index = opened_lists(stored, upstream(stores, spec, "centres")[1], embeddings)
    write_index(index, out / "index")
    _write_lines(out / "docid", row_ids(stores, encoded))
    return stored.num_rows


def _lucene(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    unpack_folder(stored.path(stored.manifest.records[0]), out)
    (out / ROWS_FILE).unlink()
    return stored.num_rows


def _json_lines(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    with (out / "passages.jsonl").open("w", encoding="utf-8") as lines:
        for record in stored.manifest.records:
            table = stored.table(schema.PASSAGES, record.shard.start, record.shard.stop)
            for row in table.to_pylist():
                lines.write(json.dumps({"id": row["passage_id"], "contents": row["text"]}) + "\n")
    return stored.num_rows


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


_WRITERS: dict[tuple[str, str], Callable[[Storage, StageSpec, Stored, Path], int]] = {
    ("vectors", "numpy"): _numpy,
    ("vectors", "faiss"): _faiss,
    ("vectors", "parquet"): write_embeddings,
    ("ann-hnsw", "faiss"): _graph,
    ("ann-ivf-pq", "faiss"): _lists,
    ("lucene", "pyserini"): _lucene,
    ("passages", "pyserini"): _json_lines,
    ("passages", "parquet"): write_passages,
    ("pairs", "parquet"): write_pairs,
    ("run", "parquet"): write_run,
    **{("run", tool): partial(write_foreign_run, tool) for tool in OTHERS},
}
"""The exporting functions, by what a store holds and the requested form."""
