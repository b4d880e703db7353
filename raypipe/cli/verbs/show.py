"""The command show: a query's candidates side by side in every system."""

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from raypipe.driver.analysis.by_query.show import Shown


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(show)


def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A pipeline's workspace.")],
    query_id: Annotated[str, typer.Option("--query", help="The id of a query.")],
    query_set: Annotated[
        str | None, typer.Option("--queries", help="A query set; by default each that has the id.")
    ] = None,
    systems: Annotated[
        list[str] | None, typer.Option("--system", help="A run; by default each. May be repeated.")
    ] = None,
    num: Annotated[int, typer.Option(help="Candidates of each system.", min=1)] = 10,
    as_page: Annotated[
        bool, typer.Option("--html", help="Write DIR/analysis/query.SET.ID.html as well as .json.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout.")
    ] = False,
) -> None:
    """A query's candidates side by side in every system: ranks, true scores, grades and texts."""
    from raypipe.driver.analysis.by_query.query_page import write_page
    from raypipe.driver.analysis.by_query.show import show as found
    from raypipe.driver.analysis.finished import open_finished

    finished = open_finished(folder)
    parts = found(finished, query_id, query_set=query_set, systems=systems or (), num=num)
    written = write_page(finished, parts) if as_page else []
    if as_json:
        print(json.dumps({"sections": [part.section().to_json() for part in parts]}))
    elif as_page:
        print("\n".join(map(str, written)))
    else:
        print("\n\n".join(_text(part, _width()) for part in parts))


def _width() -> int:
    """The terminal's columns, or those of the variable COLUMNS; 100 elsewhere."""
    from raypipe.analysis.by_query.aligned import WIDTH

    fallback = (WIDTH, 24)
    return shutil.get_terminal_size(fallback).columns if sys.stdout.isatty() else WIDTH


def _text(part: "Shown", width: int) -> str:
    from raypipe.analysis.by_query.aligned import aligned, folded, values
    from raypipe.analysis.plain import plain

    query = part.query
    head = f"query {query.query_id} of {query.query_set}, {part.unit}: {query.text}"
    lines = [line for told in (head, *part.notes) for line in folded(plain(told), width)]
    tables = [
        values(part.systems.columns, part.systems.rows, width=width),
        aligned(part.candidates, part.names, width=width)
        if part.candidates
        else f"no system has a candidate among its {part.unit}",
    ]
    return "\n\n".join(["\n".join(lines), *tables])
