"""A run file -> RUN.SET."""

from pathlib import Path

from raypipe.config.pipeline.kinds import Read
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import System
from raypipe.errors import InputError
from raypipe.names import of_stage
from raypipe.stages.read_run import ReadRunStage


def system(basis: Basis, name: str, stage: Read, query_set: str) -> System:
    """The run in a file.

    Raises:
        InputError: the stage has no file for the query set.
    """
    if query_set not in stage.runs:
        raise InputError(f"stages.{name}.runs: no file for the query set {query_set}")
    file = Path(stage.runs[query_set])
    sides = basis.sides(query_set, stage.of)
    ids = basis.ids() if stage.of == "passages" else basis.document_ids()
    read = ReadRunStage(name, file, sides, ids)
    stored = basis.stores.ensure(of_stage(name, query_set), read)
    return System(name, "run", stored, reranks="as read", model=file.name, unit=stage.of)
