"""A run file -> RUN.SET."""

from pathlib import Path

from raypipe.config.stages import Read
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import System
from raypipe.errors import InputError
from raypipe.names import of_stage
from raypipe.stages.read_run import read_stage
from raypipe.storage.store import Stored


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
    larger = stage.larger_collection
    read = read_stage(
        name,
        file,
        sides,
        ids,
        of_larger=larger is not None,
        break_ties=stage.break_ties,
        unjudged=basis.unjudged(query_set),
    )
    stored = basis.stores.ensure(of_stage(name, query_set), read)
    what = "as read" if larger is None else f"as read, a ranking of {larger}"
    note = "" if larger is None else left_out(name, larger, stored)
    return System(name, "run", stored, reranks=what, model=file.name, unit=stage.of, note=note)


def left_out(name: str, larger: str, stored: Stored) -> str:
    """What a table says of a run that was filtered to the collection."""
    facts = stored.manifest.records[0].facts
    return (
        f"{name} ranks {larger}, not this collection: {facts['left_out']:,} of its "
        f"{facts['lines']:,} lines are of passages that are not here and were left out"
    )
