"""Writes report.html and its twins in JSON, analysis/NAME.json, into a workspace."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from raypipe.analysis.page import page
from raypipe.analysis.section import Section
from raypipe.driver.analysis.depth import depth
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.fusion import fusion
from raypipe.driver.analysis.making import making
from raypipe.driver.analysis.movers import movers
from raypipe.driver.analysis.overview import overview
from raypipe.driver.analysis.queries import queries
from raypipe.driver.analysis.tradeoff import tradeoff
from raypipe.driver.mirror import write_out
from raypipe.errors import InputError

PAGE = "report.html"
_OWN = re.compile(r"(overview(-of-documents)?|depth|tradeoff-of-[^.]+|fusion|movers|queries)\..+\.")
"""The beginnings of the names of twins; other files in the folder are left alone."""


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
    sections = [section for query_set in measured for section in _of(finished, query_set)]
    sections.append(making(finished))
    folder = finished.workspace.folder
    (folder / "analysis").mkdir(exist_ok=True)
    twins = {_file_of(section): section for section in sections}
    for path in (folder / "analysis").glob("*.json"):
        if path.name not in twins and _OWN.match(path.name):
            path.unlink()  # of an earlier recipe: nothing on the page has its numbers
    for name, section in twins.items():
        data = json.dumps(section.to_json(), indent=1).encode() + b"\n"
        write_out(folder, f"analysis/{name}", data)
    write_out(folder, PAGE, page(f"raypipe: {finished.recipe.name}", sections).encode())
    return folder / PAGE


def _file_of(section: Section) -> str:
    """The name of a section's twin: that of the section, and of its query set if it has one."""
    parts = [section.name.replace(" ", "-"), section.query_set, "json"]
    return ".".join(part for part in parts if part)


def _of(finished: Finished, query_set: str) -> Iterator[Section]:
    """The sections of one query set."""
    if finished.judgements(query_set, "documents") is not None and finished.systems(
        query_set, "documents"
    ):
        yield overview(finished, query_set, "documents")
    if finished.judgements(query_set) is None or not finished.systems(query_set):
        return
    yield overview(finished, query_set)
    yield depth(finished, query_set)
    yield from _if_any(lambda: tradeoff(finished, query_set))
    yield from _if_any(lambda: [fusion(finished, query_set)])
    yield movers(finished, query_set)
    yield queries(finished, query_set)


def _if_any(made: Callable[[], list[Section]]) -> list[Section]:
    """The sections, or none if the recipe has not what they need."""
    try:
        return made()
    except InputError:
        return []
