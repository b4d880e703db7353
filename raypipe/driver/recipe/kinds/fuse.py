"""Runs -> RUN.SET."""

from collections.abc import Mapping

from raypipe.config.stages import Fuse
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.system import System
from raypipe.names import of_stage
from raypipe.stages.fuse import fuse_stage


def system(
    basis: Basis, name: str, stage: Fuse, query_set: str, inputs: Mapping[str, System]
) -> System:
    """The runs of a query set, fused into one."""
    unit = inputs[stage.runs[0]].unit
    fuse = fuse_stage(
        name,
        {run: inputs[run].stored for run in stage.runs},
        basis.sides(query_set, unit),
        stage.method,
        stage.depth,
        stage.weights,
        stage.k,
    )
    store = of_stage(name, query_set)
    stored = basis.stores.ensure(store, fuse)
    chain = Chain().then(*(inputs[run].chain for run in stage.runs), Chain((store,)))
    return System(name, "run", stored, chain, " + ".join(stage.runs), stage.method, unit=unit)
