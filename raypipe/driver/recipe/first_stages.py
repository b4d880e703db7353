"""Indexes of the collection, searches of them, and runs from files."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import assert_never

from raypipe.config.stages import (
    Ann,
    AnnSearch,
    Bm25Search,
    DenseSearch,
    Encode,
    Fixed,
    GivenRun,
    ImpactIndex,
    IvfPq,
    LuceneIndex,
    Tune,
    Tuned,
)
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import Chain, System
from raypipe.engines.ann_settings import code_bytes_for, lists_for
from raypipe.engines.lucene.search import Feedback
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import starting_weights
from raypipe.names import Role, StoreName, of_stage
from raypipe.stages.ann.build import CodesStage, hnsw_stage, train_stage
from raypipe.stages.ann.recall import Recall, measured, recall_stage
from raypipe.stages.ann.search import AnnSearchStage
from raypipe.stages.bm25 import Bm25Stage, IndexStage
from raypipe.stages.encode import EncodeStage, refuse_other_model
from raypipe.stages.impacts import ImpactIndexStage, ImpactSearchStage
from raypipe.stages.read_run import read_stage
from raypipe.stages.search import PartsStage, merge_stage
from raypipe.stages.sparse import SparsePartsStage, SparseStage
from raypipe.stages.stage import Stage
from raypipe.stages.texts.query_tokens import QueryTokens
from raypipe.stages.tune import TuneStage, chosen
from raypipe.storage.store import Stored

log = logging.getLogger(__name__)
TRAIN_ROWS_PER_LIST = 64
PROBED_SHARE = 32
"""`probes: auto` reads one of so many lists."""


def lucene_index(basis: Basis, name: str, stage: LuceneIndex) -> System:
    """The index of the collection."""
    stored = basis.once(of_stage(name), lambda: IndexStage(basis.collection(), stage.language))
    return System(name, "index", stored)


def bm25_search(
    basis: Basis, name: str, stage: Bm25Search, query_set: str, inputs: Mapping[str, System]
) -> System:
    """A search by BM25; tunes its parameters first if the recipe says so."""
    index, sides = inputs[stage.index].stored, basis.sides(query_set)
    match stage.bm25:
        case Fixed(k1=k1, b=b):
            pass
        case Tuned(tune=tune):
            k1, b = _tuned(basis, name, stage, tune, index)
        case _:
            assert_never(stage.bm25)
    excluded = basis.excluded(query_set)
    bm25 = Bm25Stage(name, sides, index, k1, b, stage.depth, feedback(stage), excluded)
    store = of_stage(name, query_set)
    stored = basis.stores.ensure(store, bm25)
    model = "BM25" if stage.rm3 is None else "BM25+RM3"
    return System(name, "run", stored, Chain((store,)), "collection", model)


def feedback(stage: Bm25Search) -> Feedback | None:
    """The settings of RM3, as the engine takes them."""
    return None if stage.rm3 is None else Feedback(**stage.rm3.model_dump())


def _tuned(
    basis: Basis, name: str, stage: Bm25Search, tune: Tune, index: Stored
) -> tuple[float, float]:
    store = of_stage(name, role=Role.TUNE)

    def grid() -> TuneStage:
        qrels = basis.recipe.queries[tune.queries].qrels
        assert qrels is not None  # a rule of the recipe
        return TuneStage(
            collection=basis.collection(),
            index=index,
            queries=basis.queries(tune.queries),
            qrels=Path(qrels),
            measure=tune.measure,
            k1=tune.k1,
            b=tune.b,
            depth=stage.depth,
            excluded=basis.excluded(tune.queries),
        )

    k1, b = chosen(basis.once(store, grid))
    log.info("%s: tuned on %s, %s: k1=%s b=%s", name, tune.queries, tune.measure, k1, b)
    return k1, b


def embeddings(basis: Basis, name: str, stage: Encode) -> System:
    """The embeddings of the collection."""
    saw = starting_weights(basis.model(stage.model))
    stored = vectors(basis, name, stage.model, None)
    return System(name, "index", stored, model=stage.model, start_weights=saw)


def vectors(basis: Basis, name: str, model_name: str, query_set: str | None) -> Stored:
    """The embeddings of the collection, or of a query set."""

    def stage() -> EncodeStage:
        model, more = basis.model(model_name), (basis.budget_tokens, basis.needs)
        encode = SparseStage if model.encoder.is_sparse else EncodeStage
        if query_set is not None:
            tokens = QueryTokens(basis.queries(query_set), model)
            return encode(tokens, model, "query", *more)
        return encode(basis.tokens(model_name), model, "passage", *more, basis.ids())

    def fits(fixed: Stored) -> bool:
        refuse_other_model(fixed, basis.model(model_name))
        return True

    return basis.once(of_stage(name, query_set), stage, fits)


def dense_search(
    basis: Basis, name: str, stage: DenseSearch, query_set: str, inputs: Mapping[str, System]
) -> System:
    """An exact search of embeddings or of impacts: the results of its spans, merged.

    Of an index of impacts it is Lucene's, with the same result.
    """
    encoded, built = inputs[stage.index], basis.recipe.stages[stage.index]
    if isinstance(built, ImpactIndex):
        return _impact_search(basis, name, stage, query_set, encoded, built.embeddings)
    model_folder = basis.model(encoded.model)
    of_queries = vectors(basis, stage.index, encoded.model, query_set)
    parts, store = of_stage(name, query_set, Role.PARTS), of_stage(name, query_set)
    found_by, excluded = (name, encoded.stored, of_queries, stage.depth), basis.excluded(query_set)
    sparse = model_folder.encoder.is_sparse
    search = (
        SparsePartsStage(*found_by, model_folder.dim, excluded=excluded)
        if sparse
        else PartsStage(*found_by, excluded=excluded)
    )
    found = basis.stores.ensure(parts, search)
    merge = merge_stage(name, found, basis.sides(query_set), stage.depth)
    merged = basis.stores.ensure(store, merge)
    chain = Chain((of_stage(stage.index, query_set), parts, store))
    model, saw = encoded.model, encoded.start_weights
    return System(name, "run", merged, chain, "collection", model, saw)


def impact_index(
    basis: Basis, name: str, stage: ImpactIndex, inputs: Mapping[str, System]
) -> System:
    """Lucene's index of impacts; always built anew for others."""
    encoded = inputs[stage.embeddings]
    index = ImpactIndexStage(basis.collection(), impacts=encoded.stored)
    return replace(encoded, name=name, stored=_once(basis, of_stage(name), index))


def _impact_search(
    basis: Basis, name: str, stage: DenseSearch, query_set: str, index: System, embeddings: str
) -> System:
    of_queries, sides = vectors(basis, embeddings, index.model, query_set), basis.sides(query_set)
    store = of_stage(name, query_set)
    excluded = basis.excluded(query_set)
    search = ImpactSearchStage(name, sides, index.stored, of_queries, stage.depth, excluded)
    stored = basis.stores.ensure(store, search)
    chain = Chain((of_stage(embeddings, query_set), store))
    return System(name, "run", stored, chain, "collection", index.model, index.start_weights)


def ann_index(basis: Basis, name: str, stage: Ann, inputs: Mapping[str, System]) -> System:
    """The index; always built anew for other embeddings, since no part of it is reused."""
    encoded = inputs[stage.embeddings]
    embeddings = encoded.stored
    if stage.ivf_pq is None:
        assert stage.hnsw is not None  # resolved
        graph = hnsw_stage(embeddings, stage.hnsw.links, stage.hnsw.ef_construction)
        stored = _once(basis, of_stage(name), graph)
    else:
        centres = _centres(basis, name, stage.ivf_pq, embeddings, encoded.model)
        stored = _once(basis, of_stage(name), CodesStage(embeddings, centres))
    return System(name, "index", stored, model=encoded.model, start_weights=encoded.start_weights)


def _once(basis: Basis, name: StoreName, stage: Stage) -> Stored:
    """The store; a generation's only if it is of these embeddings and settings."""
    wanted = stage.spec.fingerprint()
    return basis.once(name, lambda: stage, lambda fixed: fixed.manifest.fingerprint == wanted)


def _centres(basis: Basis, name: str, wanted: IvfPq, embeddings: Stored, model_name: str) -> Stored:
    model = basis.model(model_name)
    dim = model.dim
    num_rows = embeddings.num_rows
    lists = lists_of(wanted, num_rows)
    code_bytes = code_bytes_for(dim) if wanted.code_bytes == "auto" else wanted.code_bytes
    if dim % code_bytes:
        raise InputError(
            f"stages.{name}.ivf_pq.code_bytes: found {code_bytes}, expected a divisor of "
            f"{dim}, the embeddings' dimensions"
        )
    train_rows = lists * TRAIN_ROWS_PER_LIST if wanted.train_rows == "auto" else wanted.train_rows
    stage = train_stage(embeddings, lists, code_bytes, train_rows, wanted.seed)
    return _once(basis, of_stage(name, role=Role.CENTRES), stage)


def ann_search(
    basis: Basis, name: str, stage: AnnSearch, query_set: str, inputs: Mapping[str, System]
) -> System:
    """An approximate search, and its recall against exact search."""
    index = inputs[stage.index]
    built = basis.recipe.stages[stage.index]
    assert isinstance(built, Ann)
    embeddings = vectors(basis, built.embeddings, index.model, None)
    of_queries = vectors(basis, built.embeddings, index.model, query_set)
    ef_search = probes = centres = None
    if built.ivf_pq is None:
        kept = stage.ann.ef_search
        ef_search = stage.depth * stage.ann.refine if kept == "auto" else kept
    else:
        centres = _centres(basis, stage.index, built.ivf_pq, embeddings, index.model)
        lists = lists_of(built.ivf_pq, embeddings.num_rows)
        read = max(1, lists // PROBED_SHARE) if stage.ann.probes == "auto" else stage.ann.probes
        probes = min(read, lists)
    excluded = basis.excluded(query_set)
    search = AnnSearchStage(
        name,
        index.stored,
        centres,
        embeddings,
        of_queries,
        basis.sides(query_set),
        stage.depth,
        stage.ann.refine,
        ef_search,
        probes,
        excluded,
    )
    store, recall_store = of_stage(name, query_set), of_stage(name, query_set, Role.RECALL)
    stored = basis.stores.ensure(store, search)
    measured_on = (stage.depth, stage.ann.recall_queries, excluded)
    recall = recall_stage(stored, embeddings, of_queries, *measured_on)
    found = measured(basis.stores.ensure(recall_store, recall))
    chain = Chain((of_stage(built.embeddings, query_set), store))
    return System(
        name,
        "run",
        stored,
        chain,
        "collection",
        index.model,
        index.start_weights,
        recall=found,
        approximate=(_told(name, found, of_queries.num_rows),),
    )


def lists_of(wanted: IvfPq, num_rows: int) -> int:
    """The number of lists of an index of so many rows."""
    return lists_for(num_rows) if wanted.lists == "auto" else wanted.lists


def _told(name: str, recall: Recall, num_queries: int) -> str:
    if not recall.by_cutoff:
        return f"{name}: approximate search; no query to measure its recall on"
    values = ", ".join(f"{value:.4f} at {k}" for k, value in recall.by_cutoff.items())
    return (
        f"{name}: approximate search; recall against exact search {values} "
        f"({recall.queries:,} of {num_queries:,} queries)"
    )


def given_run(basis: Basis, name: str, stage: GivenRun, query_set: str) -> System:
    """The run in a file.

    Raises:
        InputError: the stage has no file for the query set.
    """
    if query_set not in stage.runs:
        raise InputError(f"stages.{name}.runs: no file for the query set {query_set}")
    file = Path(stage.runs[query_set])
    sides = basis.sides(query_set, stage.of)
    ids = basis.ids() if stage.of == "passages" else basis.document_ids()
    larger = stage.larger_collection
    read = read_stage(
        name,
        file,
        sides,
        ids,
        of_larger=larger is not None,
        break_ties=stage.break_ties,
        unjudged=basis.unjudged(query_set),
        excluded=basis.excluded(query_set, stage.of),
    )
    stored = basis.stores.ensure(of_stage(name, query_set), read)
    what = "as read" if larger is None else f"as read, a ranking of {larger}"
    note = "" if larger is None else left_out(name, larger, stored)
    unordered = int(stored.manifest.records[0].facts.get("unordered", 0))
    if unordered:
        note += "; " if note else ""
        note += f"{name}: candidates without ranks and scores, in the order of their file"
    return System(
        name,
        "run",
        stored,
        reranks=what,
        model=file.name,
        unit=stage.of,
        unordered=unordered,
        note=note,
    )


def left_out(name: str, larger: str, stored: Stored) -> str:
    """What a table says of a run that was filtered to the collection."""
    facts = stored.manifest.records[0].facts
    return (
        f"{name} ranks {larger}, not this collection: {facts['left_out']:,} of its "
        f"{facts['lines']:,} lines are of passages that are not here and were left out"
    )
