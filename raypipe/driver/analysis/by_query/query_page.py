"""Writes a query's page and its twin in JSON into a workspace."""

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from raypipe.analysis.page import page
from raypipe.driver.analysis.by_query.show import Shown
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.pages.writing import make_twins_folder
from raypipe.driver.mirror import write_out

LONGEST_NAME = 120
"""Characters of an id in a file's name; a longer one ends with its hash."""


def write_page(finished: Finished, shown: Sequence[Shown]) -> list[Path]:
    """The pages analysis/query.SET.ID.html, one for each query set; with a twin in JSON."""
    folder, written = finished.workspace.folder, []
    make_twins_folder(folder)
    for query_set in dict.fromkeys(part.query.query_set for part in shown):
        sections = [part.section() for part in shown if part.query.query_set == query_set]
        query_id = shown[0].query.query_id
        name = f"analysis/query.{query_set}.{_file_name(query_id)}"
        twin = {"sections": [section.to_json() for section in sections]}
        title = f"raypipe: {finished.recipe.name}, query {query_id}"
        write_out(folder, f"{name}.json", json.dumps(twin, indent=1).encode() + b"\n")
        write_out(folder, f"{name}.html", page(title, sections).encode())
        written.append(folder / f"{name}.html")
    return written


def _file_name(query_id: str) -> str:
    """The id as part of a file's name on any system."""
    quoted = quote(query_id, safe=" ")
    if len(quoted) <= LONGEST_NAME:
        return quoted
    return f"{quoted[:LONGEST_NAME]}-{sha256(query_id.encode()).hexdigest()[:16]}"
