"""Sections of a workspace's page, and of a training's page."""

from collections.abc import Iterator
from pathlib import Path

from raypipe.errors import InputError
from raypipe.markdown import Table, Value
from raypipe.report.finished import Finished
from raypipe.report.first_stages import depth, fusion
from raypipe.report.page import PAGE, ReportSection, write_page
from raypipe.report.queries import queries
from raypipe.report.results import overview
from raypipe.report.snapshots import over_snapshots
from raypipe.report.tradeoff import tradeoff
from raypipe.report.training import (
    TrainedFolder,
    made_by_training,
    training,
    training_size,
    trainings_of,
)


def report(finished: Finished) -> Path:
    """The page, and a JSON file for each of its sections; earlier ones are replaced.

    A section for which the recipe has not what it needs, such as a second first stage, is left out.

    Raises:
        InputError: no query set was measured.
    """
    measured = list(finished.summary["measures"])
    moved = over_snapshots(finished.workspace.folder)
    if not measured and not moved:
        raise InputError(
            f"{finished.workspace.folder}: no query set was measured; add qrels and evaluate to "
            "the recipe, and run it again"
        )
    trainings = trainings_of(finished)
    sections = [part for query_set in measured for part in _of(finished, query_set)]
    sections += moved
    sections += [training(trained, name) for name, trained in trainings.items()]
    sections.append(making(finished))
    made_from = finished.summary.get("made_from", {}).get("sha256", "")
    title = f"raypipe: {finished.recipe.name}"
    return write_page(finished.workspace.folder, title, sections, made_from)


def standing_report(finished: Finished) -> Path:
    """The page as it stands if it shows these results, otherwise one that is made now."""
    path, made_from = finished.workspace.folder / PAGE, finished.summary["made_from"]["sha256"]
    if path.is_file() and f'content="{made_from}"' in path.read_text(errors="replace"):
        return path
    return report(finished)


def report_training(trained: TrainedFolder) -> Path:
    """The page of a training's workspace: its curves, its data and its recipe."""
    recipe = str(trained.summary["recipe"])
    sections = [training(trained, recipe), made_by_training(trained)]
    return write_page(trained.folder, f"raypipe: {recipe}", sections)


def _of(finished: Finished, query_set: str) -> Iterator[ReportSection]:
    """The sections of one query set; of runs of passages, those that the recipe has stages for."""
    if finished.measured(query_set, "documents"):
        yield overview(finished, query_set, "documents")
        yield queries(finished, query_set, unit="documents")
    if not finished.measured(query_set):
        return
    yield overview(finished, query_set)
    yield depth(finished, query_set)
    yield from tradeoff(finished, query_set)
    if (sizes := training_size(finished, query_set)) is not None:
        yield sizes
    if (merged := fusion(finished, query_set)) is not None:
        yield merged
    yield queries(finished, query_set)


def making(finished: Finished) -> ReportSection:
    """The last invocation's stores in the order in which they were made, its versions and recipe.

    Every setting is in the recipe's text, each default with its source.
    """
    summary = finished.summary
    made_by: dict[str, Value] = {
        name: str(version) for name, version in summary["versions"].items()
    }
    made_by |= {"device": summary["device"], "numerics": "; ".join(finished.numerics()) or None}
    tables = [_stores(finished), Table("Made by", ["what", "is"], [*map(list, made_by.items())])]
    text = (finished.workspace.folder / "recipe.yaml").read_text()
    return ReportSection("making", "", tables, texts={"recipe.yaml": text})


STORE = ("name", "made from", "fingerprint", "rows", "copied", "quarantined", "coverage", "seconds")
SHOWN = 12
"""Characters of a fingerprint."""


def _stores(finished: Finished) -> Table:
    """`seconds` says `reused` of a store that an earlier invocation had made."""
    rows: list[list[Value]] = [
        [
            name,
            ", ".join(finished.origins(name)) or None,
            made["fingerprint"][:SHOWN],
            made["rows"],
            made["copied"],
            made["shards"]["quarantined"],
            made["coverage"],
            "reused" if made["reused"] else made["seconds"],
        ]
        for name, made in finished.summary["stages"].items()
    ]
    return Table("Stores", STORE, rows)
