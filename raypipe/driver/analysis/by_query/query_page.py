"""Writes a query's page and its twin in JSON into a workspace."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from raypipe.driver.analysis.by_query.show import Shown
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.pages.writing import TWINS, write_with_twins

LONGEST_NAME = 120
"""Characters of an id in a file's name; a longer one ends with its hash."""


def write_page(finished: Finished, shown: Sequence[Shown]) -> list[Path]:
    """The pages analysis/query.SET.ID.html, one for each query set; with a twin in JSON."""
    folder, written = finished.workspace.folder, []
    for query_set in dict.fromkeys(part.query.query_set for part in shown):
        sections = [part.section() for part in shown if part.query.query_set == query_set]
        query_id = shown[0].query.query_id
        name = f"query.{query_set}.{_file_name(query_id)}"
        title = f"raypipe: {finished.recipe.name}, query {query_id}"
        twins = {f"{name}.json": {"sections": [section.to_json() for section in sections]}}
        path = write_with_twins(folder, f"{TWINS}/{name}.html", title, sections, twins)
        written.append(path)
    return written


def _file_name(query_id: str) -> str:
    """The id as part of a file's name on any system."""
    quoted = quote(query_id, safe=" ")
    if len(quoted) <= LONGEST_NAME:
        return quoted
    return f"{quoted[:LONGEST_NAME]}-{sha256(query_id.encode()).hexdigest()[:16]}"
