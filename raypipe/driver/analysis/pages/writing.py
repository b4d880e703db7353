"""Writes a page and its twins, the JSON files with its numbers."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raypipe.analysis.page import page
from raypipe.analysis.section import Section
from raypipe.driver.mirror import write_out
from raypipe.errors import InputError

PAGE = "report.html"
TWINS = "analysis"
_OWN = re.compile(
    r"((overview(-of-documents)?|depth|tradeoff-of-[^.]+|training-size|fusion|movers"
    r"|queries(-of-documents)?"
    r"|forecast|side-by-side(-of-documents)?)\..+|training-of-[^.]+)\.json"
)
"""The names of twins; other files in the folder are left alone."""


def make_twins_folder(folder: Path) -> None:
    """FOLDER/analysis, if it is not there.

    Raises:
        InputError: there is a file of that name.
    """
    path = folder / TWINS
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: expected a folder for analyses, found a file; move it away")
    path.mkdir(exist_ok=True)


def write_page(folder: Path, title: str, sections: Sequence[Section]) -> Path:
    """FOLDER/report.html and FOLDER/analysis/NAME.SET.json; earlier ones are replaced.

    Twins of an earlier page without a section in this one are deleted.
    """
    twins = {_file_of(section): section.to_json() for section in sections}
    for path in (folder / TWINS).glob("*.json"):
        if path.name not in twins and _OWN.fullmatch(path.name):
            path.unlink()  # of an earlier recipe: nothing on the page has its numbers
    return write_with_twins(folder, PAGE, title, sections, twins)


def write_with_twins(
    folder: Path,
    name: str,
    title: str,
    sections: Sequence[Section],
    twins: Mapping[str, Mapping[str, Any]],
) -> Path:
    """FOLDER/NAME, the page of some sections; FOLDER/analysis/TWIN, the same as JSON, before it.

    Raises:
        InputError: see `make_twins_folder`.
    """
    make_twins_folder(folder)
    for twin, body in twins.items():
        data = json.dumps(body, indent=1).encode() + b"\n"
        write_out(folder, f"{TWINS}/{twin}", data)
    write_out(folder, name, page(title, sections).encode())
    return folder / name


def _file_of(section: Section) -> str:
    """The name of a section's twin: that of the section, and of its query set if it has one."""
    parts = [section.name.replace(" ", "-"), section.query_set, "json"]
    return ".".join(part for part in parts if part)
