"""Which sections the page of a workspace has, of two side by side, and of a training."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from raypipe.analysis.section import Section, Value
from raypipe.driver.analysis.by_query.movers import movers
from raypipe.driver.analysis.by_query.queries import queries
from raypipe.driver.analysis.depth import depth
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.fusion import fusion
from raypipe.driver.analysis.grid.choosing import chosen
from raypipe.driver.analysis.grid.tradeoff import tradeoff
from raypipe.driver.analysis.making import making
from raypipe.driver.analysis.overview import overview
from raypipe.driver.analysis.pages.beside import beside
from raypipe.driver.analysis.pages.forecasting import forecasting
from raypipe.driver.analysis.pages.stale import changed_since
from raypipe.driver.analysis.pages.training import (
    TrainedFolder,
    dropped,
    made_by_training,
    training,
    trainings_of,
)
from raypipe.driver.analysis.pages.writing import write_page
from raypipe.driver.analysis.training_size import training_size
from raypipe.errors import InputError
from raypipe.regular import check_folder


def report(finished: Finished) -> Path:
    """The page, and a JSON file for each of its sections; earlier ones are replaced.

    A section for which the recipe has not what it needs, such as a second first stage, is left out.

    Raises:
        InputError: no query set was measured.
    """
    measured = list(finished.summary["measures"])
    if not measured:
        raise InputError(
            f"{finished.workspace.folder}: no query set was measured; add qrels and evaluate to "
            "the recipe, and run it again"
        )
    trainings = trainings_of(finished)
    changes, facts = changed_since(finished), _facts(finished, trainings)
    sections = [
        section for query_set in measured for section in _of(finished, query_set, changes, facts)
    ]
    sections += [training(trained, name) for name, trained in trainings.items()]
    foreseen = forecasting(finished.summary)
    sections += [] if foreseen is None else [foreseen]
    sections.append(making(finished))
    return write_page(finished.workspace.folder, f"raypipe: {finished.recipe.name}", sections)


def report_beside(
    one: Finished,
    other: Finished,
    out: Path | None = None,
    pairs: Sequence[tuple[str, str]] = (),
) -> Path:
    """The page of two workspaces side by side, in a folder of its own.

    Without `out` that is `ONE-beside-OTHER` in the current folder, by their names. `pairs` names
    systems to compare that have different names, one of each workspace.

    Raises:
        InputError: the folder is a workspace or a file, or the two have nothing in common.
    """
    names = [each.workspace.folder.resolve().name for each in (one, other)]
    out = Path("-beside-".join(names)) if out is None else out
    check_folder(out, "--out ")
    if any((out / name).exists() for name in ("workspace.json", "summary.json")):
        raise InputError(f"--out {out}: it is a workspace, with a page of its own; name another")
    sections = beside(one, other, pairs)
    out.mkdir(parents=True, exist_ok=True)
    return write_page(out, f"raypipe: {names[0]} (A) and {names[1]} (B)", sections)


def report_training(trained: TrainedFolder) -> Path:
    """The page of a training's workspace: its curves, its data and its recipe."""
    recipe = str(trained.summary["recipe"])
    sections = [training(trained, recipe), made_by_training(trained)]
    return write_page(trained.folder, f"raypipe: {recipe}", sections)


def _facts(finished: Finished, trainings: Mapping[str, TrainedFolder]) -> Mapping[str, Value]:
    """What the first screen says of the workspace as a whole."""
    stages = finished.summary["stages"].values()
    quarantined = sum(told["shards"]["quarantined"] for told in stages)
    found: dict[str, Value] = {
        "coverage, the least of a store": min((told["coverage"] for told in stages), default=1.0),
        "rows in quarantine": quarantined,
    }
    for name, trained in trainings.items():
        found[f"the guard of {name} dropped"] = dropped(trained)
    return found


def _of(
    finished: Finished, query_set: str, changes: Sequence[str], facts: Mapping[str, Value]
) -> Iterator[Section]:
    """The sections of one query set; of runs of passages, those that the recipe has stages for."""
    if finished.measured(query_set, "documents"):
        yield overview(finished, query_set, "documents", changes=changes, facts=facts)
        yield queries(finished, query_set, unit="documents")
    if not finished.measured(query_set):
        return
    yield overview(finished, query_set, changes=changes, facts=facts)
    yield depth(finished, query_set)
    yield from tradeoff(finished, query_set)
    wanted = finished.recipe.evaluate
    choose_on = None if wanted is None else wanted.choose_on
    if choose_on not in (None, query_set) and finished.measured(choose_on):
        yield from chosen(finished, choose_on, [query_set])
    if (sizes := training_size(finished, query_set)) is not None:
        yield sizes
    if (merged := fusion(finished, query_set)) is not None:
        yield merged
    if (moved := movers(finished, query_set)).tables:
        yield moved
    yield queries(finished, query_set)
