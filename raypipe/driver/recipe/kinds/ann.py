"""A graph: INDEX. Lists: centres@INDEX -> INDEX. A search: INDEX -> RUN.SET -> recall@RUN.SET."""

from collections.abc import Mapping

from raypipe.config.stages import Ann, AnnSearch, IvfPq
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.kinds.encode import vectors
from raypipe.driver.recipe.system import System
from raypipe.engines.ann_settings import code_bytes_for, lists_for
from raypipe.errors import InputError
from raypipe.names import Role, StoreName, of_stage
from raypipe.stages.ann.hnsw import HnswStage
from raypipe.stages.ann.ivf_pq import CodesStage, TrainStage
from raypipe.stages.ann.recall import Recall, measured, recall_stage
from raypipe.stages.ann.search import AnnSearchStage
from raypipe.stages.stage import Stage
from raypipe.storage.store import Stored

TRAIN_ROWS_PER_LIST = 64
PROBED_SHARE = 32
"""`probes: auto` reads one of so many lists."""


def index_system(basis: Basis, name: str, stage: Ann, inputs: Mapping[str, System]) -> System:
    """The index; always built anew for other embeddings, since no part of it is reused."""
    encoded = inputs[stage.embeddings]
    embeddings = encoded.stored
    if stage.ivf_pq is None:
        assert stage.hnsw is not None  # resolved
        graph = HnswStage(embeddings, stage.hnsw.links, stage.hnsw.ef_construction)
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
    stage = TrainStage(embeddings, lists, code_bytes, train_rows, wanted.seed)
    return _once(basis, of_stage(name, role=Role.CENTRES), stage)


def search_system(
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
    )
    store, recall_store = of_stage(name, query_set), of_stage(name, query_set, Role.RECALL)
    stored = basis.stores.ensure(store, search)
    recall = recall_stage(stored, embeddings, of_queries, stage.depth, stage.ann.recall_queries)
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
