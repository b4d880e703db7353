"""BM25: RUN.SET, after tune@RUN if it is tuned. Embeddings: parts@RUN.SET -> RUN.SET."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from raypipe.config.stages import Bm25Search, DenseSearch, Fixed, Tune, Tuned
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.kinds.encode import vectors
from raypipe.driver.recipe.system import System
from raypipe.engines.lucene.search import Rm3
from raypipe.names import Role, of_stage
from raypipe.stages.bm25 import Bm25Stage
from raypipe.stages.search import PartsStage, merge_stage
from raypipe.stages.tune import TuneStage, chosen
from raypipe.storage.store import Stored

log = logging.getLogger(__name__)


def bm25_system(
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
    bm25 = Bm25Stage(name, sides, index, k1, b, stage.depth, feedback(stage))
    store = of_stage(name, query_set)
    stored = basis.stores.ensure(store, bm25)
    model = "BM25" if stage.rm3 is None else "BM25+RM3"
    return System(name, "run", stored, Chain((store,)), "collection", model)


def feedback(stage: Bm25Search) -> Rm3 | None:
    """The settings of RM3, as the engine takes them."""
    return None if stage.rm3 is None else Rm3(**stage.rm3.model_dump())


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
        )

    k1, b = chosen(basis.once(store, grid))
    log.info("%s: tuned on %s, %s: k1=%s b=%s", name, tune.queries, tune.measure, k1, b)
    return k1, b


def dense_system(
    basis: Basis, name: str, stage: DenseSearch, query_set: str, inputs: Mapping[str, System]
) -> System:
    """An exact search of embeddings: the results of its spans, merged."""
    encoded = inputs[stage.index]
    of_queries = vectors(basis, stage.index, encoded.model, query_set)
    parts, store = of_stage(name, query_set, Role.PARTS), of_stage(name, query_set)
    search = PartsStage(name, encoded.stored, of_queries, stage.depth)
    found = basis.stores.ensure(parts, search)
    merge = merge_stage(name, found, basis.sides(query_set), stage.depth)
    merged = basis.stores.ensure(store, merge)
    chain = Chain((of_stage(stage.index, query_set), parts, store))
    model, saw = encoded.model, encoded.start_weights
    return System(name, "run", merged, chain, "collection", model, saw)
