"""A run of documents -> RUN.SET, a run of their passages."""

from collections.abc import Mapping

from raypipe.config.stages import Passages
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.system import System
from raypipe.names import of_stage
from raypipe.stages.documents.rank import passages_run_stage


def system(
    basis: Basis, name: str, stage: Passages, query_set: str, inputs: Mapping[str, System]
) -> System:
    """All passages of a run's first documents."""
    before = inputs[stage.run]
    made = passages_run_stage(
        name,
        before.stored,
        basis.passage_map(),
        basis.sides(query_set),
        stage.documents,
        stage.at_most,
    )
    store = of_stage(name, query_set)
    stored = basis.stores.ensure(store, made)
    chain = before.chain.then(Chain((store,)))
    what = f"{stage.run}, first {stage.documents}"
    return System(name, "run", stored, chain, what, before.model, before.start_weights)
