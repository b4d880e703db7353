"""Writes a finished store as files that other tools read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from raypipe import schema
from raypipe.driver.upkeep.which_store import which_store
from raypipe.engines.lucene.index import ROWS_FILE
from raypipe.engines.lucene.pack import unpack_folder
from raypipe.errors import IncompleteError, InputError
from raypipe.stages.run_tables import with_ids
from raypipe.stages.texts.ids import ids_of_rows
from raypipe.storage.files import appear, folder_beside
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store_records import find_spec, read_manifest
from raypipe.storage.stored import Stored

FORMS = ("numpy", "faiss", "pyserini", "parquet")


def export(store: Path | str, to: str, out: Path, *, generation: int | None = None) -> int:
    """The number of rows exported into the folder `out`, which appears complete or not at all.

    numpy: embeddings.npy (fp16 [rows, dim]) and ids.txt. faiss: `index` (flat, inner product) and
    `docid`, pyserini's folder of a dense index; or the index of an `ann` stage, and `docid`.
    pyserini: a Lucene folder, or a collection as JSON lines. parquet: a collection, a run or a
    duoBERT model's pairs, with original ids.

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
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: not empty; name a new folder")
    with which_store(store, generation) as found:
        return _export(*found, to, out)


def _export(stores: Storage, name: str, fingerprint: str, to: str, out: Path) -> int:
    stored = _stored(stores, name, fingerprint)
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


def _stored(stores: Storage, name: str, fingerprint: str) -> Stored:
    manifest = read_manifest(stores, name, fingerprint)
    if manifest is None:
        raise IncompleteError(f"{name}/{fingerprint}: not complete; run its pipeline again")
    return Stored(stores, manifest)


def _upstream(stores: Storage, spec: StageSpec, name: str) -> tuple[StageSpec, Stored]:
    """The spec and the store of an input of the exported store.

    Raises:
        IncompleteError: it was deleted, or remade with another content.
    """
    store, fingerprint = spec.origins[name].split("/")
    found, upstream = _stored(stores, store, fingerprint), find_spec(stores, store, fingerprint)
    if upstream is None or found.identity != spec.inputs[name]:
        raise IncompleteError(
            f"{store}/{fingerprint}: the store was remade since it was read; run its pipeline again"
        )
    return upstream, found


def _texts(stores: Storage, spec: StageSpec) -> Stored:
    """The collection or query set whose texts a store of embeddings encodes."""
    tokens, _ = _upstream(stores, spec, "tokens")
    return _upstream(stores, tokens, "texts")[1]


def _ids(stores: Storage, spec: StageSpec) -> list[str]:
    texts, is_query = _texts(stores, spec), spec.params["side"] == "query"
    if is_query:
        ids: list[str] = texts.table(schema.QUERIES)["query_id"].to_pylist()
        return ids
    return ids_of_rows(texts, np.arange(texts.num_rows))


def _numpy(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    dim = stored.vectors(stored.manifest.records[0]).shape[1]
    shape = (stored.num_rows, dim)
    rows = np.lib.format.open_memmap(out / "embeddings.npy", "w+", np.float16, shape)
    for record in stored.manifest.records:
        rows[record.shard.start : record.shard.stop] = stored.vectors(record)
    rows.flush()
    _write_lines(out / "ids.txt", _ids(stores, spec))
    return stored.num_rows


def _faiss(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    import faiss

    index = faiss.IndexFlatIP(stored.vectors(stored.manifest.records[0]).shape[1])
    for record in stored.manifest.records:
        index.add(stored.vectors(record).astype(np.float32))
    faiss.write_index(index, str(out / "index"))
    _write_lines(out / "docid", _ids(stores, spec))
    return stored.num_rows


def _graph(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """The graph as it is stored; its ids are rows, that is lines of docid from 0."""
    shutil.copyfile(stored.path(stored.manifest.records[0]), out / "index")
    _write_lines(out / "docid", _ids(stores, _upstream(stores, spec, "embeddings")[0]))
    return stored.num_rows


def _lists(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """The centres with all codes as one index of faiss; its ids are rows, as those of a graph."""
    from raypipe.engines.ann.files import write_index
    from raypipe.stages.ann.opened import opened_lists

    upstream, embeddings = _upstream(stores, spec, "embeddings")
    index = opened_lists(stored, _upstream(stores, spec, "centres")[1], embeddings)
    write_index(index, out / "index")
    _write_lines(out / "docid", _ids(stores, upstream))
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


def _passages(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    with pq.ParquetWriter(out / "passages.parquet", schema.PASSAGES) as writer:
        for record in stored.manifest.records:
            writer.write_table(stored.table(schema.PASSAGES, record.shard.start, record.shard.stop))
    return stored.num_rows


def _run(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    queries, collection = _sides(stores, spec)
    run: pa.Table = stored.whole_table(schema.RUN)
    table = with_ids(run, queries.table(schema.QUERIES), collection)
    pq.write_table(table, out / "run.parquet")
    return int(table.num_rows)


def _pairs(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns query_id, passage_id, other_id, probability (that the passage is more relevant)."""
    queries, collection = _sides(stores, spec)
    pairs: pa.Table = stored.whole_table(schema.SCORES)
    sides = [
        pa.array(ids_of_rows(collection, pairs[name].to_numpy()), pa.string())
        for name in ("passage_row", "other_row")
    ]
    query_ids = queries.table(schema.QUERIES)["query_id"].take(pairs["query_row"])
    names = ["query_id", "passage_id", "other_id", "probability"]
    pq.write_table(
        pa.table([query_ids, *sides, pairs["score"]], names=names), out / "pairs.parquet"
    )
    return int(pairs.num_rows)


def _sides(stores: Storage, spec: StageSpec) -> tuple[Stored, Stored]:
    """The (query set, collection) of a run, as named in its spec."""
    return _upstream(stores, spec, "queries")[1], _upstream(stores, spec, "collection")[1]


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


_WRITERS: dict[tuple[str, str], Callable[[Storage, StageSpec, Stored, Path], int]] = {
    ("vectors", "numpy"): _numpy,
    ("vectors", "faiss"): _faiss,
    ("ann-hnsw", "faiss"): _graph,
    ("ann-ivf-pq", "faiss"): _lists,
    ("lucene", "pyserini"): _lucene,
    ("passages", "pyserini"): _json_lines,
    ("passages", "parquet"): _passages,
    ("pairs", "parquet"): _pairs,
    ("run", "parquet"): _run,
}
"""The exporting functions, by what a store holds and the requested form."""
