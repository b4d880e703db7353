"""Writes a finished store as files that other tools read."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from raypipe import schema
from raypipe.config.resolved import read_resolved
from raypipe.driver.proof.proof import computable
from raypipe.driver.workspace import Workspace
from raypipe.engines.lucene.index import ROWS_FILE, unpack_folder
from raypipe.errors import IncompleteError, InputError
from raypipe.models.folder.model_folder import here, open_tokenizer, resolve_model
from raypipe.regular import check_folder
from raypipe.stages.embeddings import all_vectors, dim_of
from raypipe.stages.ids import ids_of_rows
from raypipe.stages.run_tables import with_ids
from raypipe.stages.sparse import unpacked
from raypipe.storage.files import appear, folder_beside
from raypipe.storage.generations import generation_names, generation_numbers, held_generation
from raypipe.storage.ledger import find_spec, read_manifest
from raypipe.storage.root import open_storage
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored


def stored_of(stores: Storage, name: str, fingerprint: str) -> Stored:
    """The store of that name and fingerprint.

    Raises:
        IncompleteError: it is not complete.
    """
    manifest = read_manifest(stores, name, fingerprint)
    if manifest is None:
        raise IncompleteError(f"{name}/{fingerprint}: not complete; run its pipeline again")
    return Stored(stores, manifest)


def upstream(stores: Storage, spec: StageSpec, name: str) -> tuple[StageSpec, Stored]:
    """The spec and the store of an input of the exported store.

    Raises:
        IncompleteError: it was deleted, or remade with another content.
    """
    store, fingerprint = spec.origins[name].split("/")
    stored, upstream = stored_of(stores, store, fingerprint), find_spec(stores, store, fingerprint)
    if upstream is None or stored.identity != spec.inputs[name]:
        raise IncompleteError(
            f"{store}/{fingerprint}: the store was remade since it was read; run its pipeline again"
        )
    return upstream, stored


def texts_of(stores: Storage, spec: StageSpec) -> Stored:
    """The collection or query set whose texts a store of embeddings encodes."""
    if "embeddings" in spec.origins:  # truncated
        spec, _ = upstream(stores, spec, "embeddings")
    if "queries" in spec.origins:
        return upstream(stores, spec, "queries")[1]
    tokens, _ = upstream(stores, spec, "tokens")
    return upstream(stores, tokens, "texts")[1]


def row_ids(stores: Storage, spec: StageSpec) -> list[str]:
    """The original ids of a store's embeddings, of passages or of queries, in row order."""
    texts, is_query = texts_of(stores, spec), spec.params["side"] == "query"
    if is_query:
        ids: list[str] = texts.table(schema.QUERIES)["query_id"].to_pylist()
        return ids
    return ids_of_rows(texts, np.arange(texts.num_rows))


def sides_of(stores: Storage, spec: StageSpec) -> tuple[Stored, Stored]:
    """The (query set, collection) of a run, as named in its spec."""
    return upstream(stores, spec, "queries")[1], upstream(stores, spec, "collection")[1]


@contextmanager
def which_store(
    place: Path | str, generation: int | None = None
) -> Iterator[tuple[Storage, str, str]]:
    """The parts (stores, name, fingerprint) of STORES/NAME or STORES/NAME/FINGERPRINT.

    Without a fingerprint it is the store of the current generation, or of the one with this number,
    which is held while the block runs. Where no generation names such a store, it is the one that
    the workspace around used last, since others may share its stores; else what was completed last.

    Raises:
        InputError: no complete store, no such generation, or a generation without this store.
    """
    stores, root, name, fingerprint = parts_of(str(place))
    if fingerprint is not None:
        if generation is not None:
            raise InputError(
                f"--generation {generation}: {place} names a fingerprint already; leave one out"
            )
        yield stores, name, fingerprint
        return
    with ExitStack() as end:
        option = None if generation is None else f"--generation {generation}"
        line = line_of(root, stores, option)
        if line is not None:
            leased = end.enter_context(held_generation(stores, line, generation))
            if name in leased.stores:
                yield stores, name, leased.stores[name]
                return
            if generation is not None:
                raise InputError(
                    f"{place}: generation {generation} of {line} has no such store; it has "
                    f"{', '.join(sorted(leased.stores))}"
                )
        yield stores, name, _of_workspace(root, name) or _newest(stores, name, str(place))


def _of_workspace(root: str, name: str) -> str | None:
    """The fingerprint of the complete store that the workspace around its stores used last."""
    around = Path(root).absolute().parent
    if "://" in root or Path(root).name != "stores" or not (around / "workspace.json").is_file():
        return None
    workspace = Workspace(around)
    fingerprint = workspace.refs().get(name)
    complete = f"{name}/{fingerprint}/manifest.json"
    return fingerprint if fingerprint and workspace.stores.exists(complete) else None


def parts_of(place: str) -> tuple[Storage, str, str, str | None]:
    """The opened root of stores and its place, the store's name, and the fingerprint if named."""
    place = place.rstrip("/")
    root, name, last = _split(place)
    if root and name:
        stores = open_storage(root)
        if stores.exists(f"{name}/{last}/plan.json"):
            return stores, root, name, last
    root = place[: -len(last) - 1] if "://" in place else str(Path(place).parent)
    return open_storage(root), root, last, None


def _split(place: str) -> tuple[str, str, str]:
    """ROOT, NAME and LAST of ROOT/NAME/LAST; ROOT is empty where nothing is above the name."""
    if "://" not in place:
        path = Path(place)
        return str(path.parent.parent), path.parent.name, path.name
    root, name, last = place.rsplit("/", 2)
    return "" if root.endswith("/") else root, name, last  # s3://BUCKET is the highest there is


def line_of(root: str, stores: Storage, option: str | None = None) -> str | None:
    """The name of the generations in a root of stores; None if it has none.

    Where workspaces share the root, it is the recipe's name of the workspace around it.

    Raises:
        InputError: an option asks for one where there is none, or several lines could be meant.
    """
    names = [name for name in generation_names(stores) if generation_numbers(stores, name)]
    if not names and option is not None:
        raise InputError(f"{option}: {root} has no generations; `raypipe reindex` makes them")
    if len(names) < 2:
        return names[0] if names else None
    around = Path(root).absolute().parent
    is_workspace = "://" not in root and all(
        (around / file).is_file() for file in ("workspace.json", "recipe.yaml")
    )
    own = str(read_resolved(around / "recipe.yaml").get("name")) if is_workspace else None
    if own in names:
        return own
    raise InputError(
        f"{root}: it has generations of {', '.join(names)}; expected those of one recipe. Name "
        "STORES/NAME/FINGERPRINT; each generations/RECIPE/NUMBER.json lists its fingerprints"
    )


def _newest(stores: Storage, name: str, place: str) -> str:
    """The fingerprint of the store that was completed last."""
    parts = [file.split("/") for file in stores.names(name)]
    manifests = ["/".join(each) for each in parts if each[2:] == ["manifest.json"]]
    times = {entry.name: entry.written for n in manifests if (entry := stores.entry(n))}
    if not times:
        raise InputError(
            f"{place}: expected STORES/NAME or STORES/NAME/FINGERPRINT of a complete store"
        )
    return max(times, key=times.__getitem__).split("/")[1]


ROWS_AT_ONCE = 10_000
"""Embeddings in one part of a Parquet file; in float32 of 768 values they take 30 MB."""
FORMS = ("numpy", "faiss", "pyserini", "parquet")


def write_embeddings(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns passage_id (or query_id) and embedding: lists of float32, which every reader has.

    The values are the stored fp16 ones. Rows in quarantine have none and are left out.
    """
    dim = dim_of(stored)
    name = "query_id" if spec.params["side"] == "query" else "passage_id"
    columns = pa.schema([(name, pa.string()), ("embedding", pa.list_(pa.float32(), dim))])
    ids = row_ids(stores, spec)
    with pq.ParquetWriter(out / "embeddings.parquet", columns) as writer:
        for rows, part in _kept_vectors(stored):
            values = pa.array(part.astype(np.float32).ravel())
            lists = pa.FixedSizeListArray.from_arrays(values, dim)
            writer.write_table(pa.table([[ids[row] for row in rows], lists], schema=columns))
    return stored.num_rows - len(stored.manifest.skipped_rows)


def write_passages(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns passage_id and text."""
    with pq.ParquetWriter(out / "passages.parquet", schema.PASSAGES) as writer:
        for record in stored.manifest.records:
            writer.write_table(stored.table(schema.PASSAGES, record.shard.start, record.shard.stop))
    return stored.num_rows


def write_run(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns query_id, passage_id, rank and the true score."""
    queries, collection = sides_of(stores, spec)
    table = with_ids(stored.whole_table(schema.RUN), queries.table(schema.QUERIES), collection)
    pq.write_table(table, out / "run.parquet")
    return int(table.num_rows)


def write_pairs(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns query_id, passage_id, other_id, probability (that the passage is more relevant)."""
    pairs = stored.whole_table(schema.SCORES)
    return _write_scored(pairs, *sides_of(stores, spec), out, of_pairs=True)


def write_scores(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """Columns query_id, passage_id and score of every scored candidate; pairs as `write_pairs`.

    Rows are by query and position of the passage, not by score; those in quarantine are left out.
    """
    base = spec.params["base"]
    assert isinstance(base, Mapping)
    texts = replace(spec, inputs={**spec.inputs, **base["inputs"]})
    scores: pa.Table = stored.whole_table(schema.SCORES)
    of_pairs = bool((scores["other_row"].to_numpy() >= 0).any())
    return _write_scored(scores, *sides_of(stores, texts), out, of_pairs=of_pairs)


def _write_scored(
    scores: pa.Table, queries: Stored, collection: Stored, out: Path, *, of_pairs: bool
) -> int:
    """Write scores (schema.SCORES) with original ids; returns their number."""
    passages = {"passage_id": "passage_row", **({"other_id": "other_row"} if of_pairs else {})}
    columns = {"query_id": queries.table(schema.QUERIES)["query_id"].take(scores["query_row"])}
    for name, rows in passages.items():
        ids = ids_of_rows(collection, scores[rows].to_numpy())
        columns[name] = pa.array(ids, pa.string())
    columns["probability" if of_pairs else "score"] = scores["score"]
    pq.write_table(pa.table(columns), out / f"{'pairs' if of_pairs else 'scores'}.parquet")
    return int(scores.num_rows)


def export(
    store: Path | str,
    to: str,
    out: Path,
    *,
    generation: int | None = None,
    model: str | None = None,
) -> int:
    """The number of rows exported into the folder `out`, which appears complete or not at all.

    numpy: embeddings.npy (fp16 [rows, dim]) and ids.txt, without rows in quarantine, which have no
    embedding; so in faiss and parquet. faiss: `index` (flat, inner product) and
    `docid`, pyserini's folder of a dense index; or the index of an `ann` stage, and `docid`.
    pyserini: a Lucene folder, or a collection or impacts as JSON lines. parquet: a collection,
    embeddings, a run, a reranker's scores or a duoBERT model's pairs, with original ids.

    Args:
        store: STORES/NAME or STORES/NAME/FINGERPRINT; see `which_store`.
        to: one of `FORMS`.
        out: a new or empty folder.
        generation: the number of the generation to read; by default the current one.
        model: that of impacts, whose word pieces they are written with.

    Raises:
        InputError: no such store or generation, a form that does not suit it, or a target that is
            not empty.
        IncompleteError: the store is not complete.
    """
    if to not in FORMS:
        raise InputError(f"--to {to}: expected one of {', '.join(FORMS)}")
    refuse_filled(out)
    with which_store(store, generation) as place:
        return _export(*place, to, out, model)


def refuse_filled(out: Path) -> None:
    """Returns nothing if the folder is new or empty.

    Raises:
        InputError: it is not, or is no folder.
    """
    check_folder(out, "--out ")
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: not empty; name a new folder")


def _export(
    stores: Storage, name: str, fingerprint: str, to: str, out: Path, model: str | None
) -> int:
    stored = stored_of(stores, name, fingerprint)
    spec = stored.spec
    if (spec.produces, to) not in _WRITERS:
        forms = sorted(form for produces, form in _WRITERS if produces == spec.produces)
        message = f"{name}: a store of {spec.produces or spec.stage} can be exported to"
        if forms:
            raise InputError(f"{message}: {', '.join(forms)}")
        others = ", ".join(_exportable(stores)) or "none"
        raise InputError(f"{message} nothing; stores beside it that can be exported: {others}")
    if model is not None and spec.produces != "impacts":
        raise InputError(f"--model: for a sparse model's impacts only, and {name} has none")
    with folder_beside(out) as partial:
        named = {"model": model} if spec.produces == "impacts" else {}
        num_rows = _WRITERS[spec.produces, to](stores, spec, stored, partial, **named)
        appear(partial, out)
    return num_rows


def _exportable(stores: Storage) -> list[str]:
    """The names of complete stores for which there is a form."""
    parts = [each.split("/") for each in stores.names("")]
    complete = [each[:2] for each in parts if each[2:] == ["manifest.json"]]
    specs = {name: find_spec(stores, name, fingerprint) for name, fingerprint in complete}
    forms = {produces for produces, _ in _WRITERS}
    return sorted(name for name, spec in specs.items() if spec and spec.produces in forms)


def _kept_vectors(stored: Stored) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float16]]]:
    """(rows, vectors) of the embeddings that are not in quarantine, some at a time, in order.

    A row in quarantine has no embedding: what stands in its place would be ranked by other tools.
    """
    for first, vectors in all_vectors(stored):
        for start in range(0, len(vectors), ROWS_AT_ONCE):
            part = vectors[start : start + ROWS_AT_ONCE]
            yield first + start + np.arange(len(part)), part


def _write_kept_ids(path: Path, stores: Storage, spec: StageSpec, stored: Stored) -> int:
    """Write the ids of `_kept_vectors`, a line each; their number."""
    ids, skipped = row_ids(stores, spec), {*stored.manifest.skipped_rows}
    names = [name for row, name in enumerate(ids) if row not in skipped]
    _write_lines(path, names)
    return len(names)


def _numpy(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    num_rows = _write_kept_ids(out / "ids.txt", stores, spec, stored)
    shape = (num_rows, dim_of(stored))
    rows, at = np.lib.format.open_memmap(out / "embeddings.npy", "w+", np.float16, shape), 0
    for _, part in _kept_vectors(stored):
        rows[at : at + len(part)] = part
        at += len(part)
    rows.flush()
    return num_rows


def _faiss(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    import faiss

    index = faiss.IndexFlatIP(dim_of(stored))
    for _, part in _kept_vectors(stored):
        index.add(part.astype(np.float32))
    faiss.write_index(index, str(out / "index"))
    return _write_kept_ids(out / "docid", stores, spec, stored)


def _graph(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """The graph as it is stored; its ids are rows, that is lines of docid from 0."""
    shutil.copyfile(stored.path(stored.manifest.records[0]), out / "index")
    _write_lines(out / "docid", row_ids(stores, upstream(stores, spec, "embeddings")[0]))
    return stored.num_rows


def _lists(stores: Storage, spec: StageSpec, stored: Stored, out: Path) -> int:
    """The centres with all codes as one index of faiss; its ids are rows, as those of a graph."""
    from raypipe.engines.ann import write_index
    from raypipe.stages.ann.search import opened_lists

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


def _impacts(stores: Storage, spec: StageSpec, stored: Stored, out: Path, model: str | None) -> int:
    """Anserini's JsonVectorCollection: the impact of each word piece, by its text."""
    ids, pieces = row_ids(stores, spec), _pieces(stores, spec, model)
    with (out / "vectors.jsonl").open("w", encoding="utf-8") as lines:
        for start in range(0, stored.num_rows, ROWS_AT_ONCE):
            flat, offsets = stored.tokens(start, min(start + ROWS_AT_ONCE, stored.num_rows))
            terms, impacts = (each.tolist() for each in unpacked(flat))
            for row, (first, last) in enumerate(pairwise(offsets.tolist())):
                words = zip(terms[first:last], impacts[first:last], strict=True)
                vector = {pieces[term]: impact for term, impact in words}
                line = {"id": ids[start + row], "contents": "", "vector": vector}
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
    return stored.num_rows


def _pieces(stores: Storage, spec: StageSpec, model: str | None) -> list[str]:
    """The texts of the model's word pieces, by id.

    Raises:
        InputError: no model, or one with another tokenizer.
    """
    if model is None:
        raise InputError("--model: impacts are written by word piece; name the model they are of")
    opened = computable({"--model": resolve_model(model)}, stores, make=False)["--model"]
    made = spec.params.get("pieces") or upstream(stores, spec, "tokens")[0].params
    assert isinstance(made, Mapping)
    other = made["tokenizer_sha256"] != opened.tokenizer_sha256
    if opened.by_library:  # whose texts are no word pieces, in a store of any such model
        other = other or spec.params.get("weights_sha256") != opened.weights_sha256
    if other:
        raise InputError(f"--model {model}: its tokenizer is not that of this store's word pieces")
    pieces = [f"[unused {number}]" for number in range(opened.dim)]  # of padding, in no text
    if opened.by_library:
        from raypipe.models.library_open import open_by_library

        read, folder = opened.config_read, here(opened).folder
        vocabulary = open_by_library(folder, read["class"], read["pooling"], "meta").tokenizer
    else:
        vocabulary = open_tokenizer(opened)
    for word, number in vocabulary.get_vocab().items():
        if number < len(pieces):
            pieces[number] = word
    return pieces


_WRITERS: dict[tuple[str, str], Callable[..., int]] = {
    ("vectors", "numpy"): _numpy,
    ("vectors", "faiss"): _faiss,
    ("vectors", "parquet"): write_embeddings,
    ("ann-hnsw", "faiss"): _graph,
    ("ann-ivf-pq", "faiss"): _lists,
    ("impacts", "pyserini"): _impacts,
    ("lucene", "pyserini"): _lucene,
    ("passages", "pyserini"): _json_lines,
    ("passages", "parquet"): write_passages,
    ("pairs", "parquet"): write_pairs,
    ("run", "parquet"): write_run,
    ("scores", "parquet"): write_scores,
}
"""The exporting functions, by what a store holds and the requested form."""
