"""The commands report and show: what a workspace says as a whole, and of one query."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.cli.options import AsJson, Folder, PipelineFolder
from raypipe.cli.output import terminal_width

if TYPE_CHECKING:
    from raypipe.report.show import Shown


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(report)
    app.command()(show)


def report(folder: Folder) -> None:
    """Write report.html, one page of what the runs say, and its numbers as analysis/*.json."""
    from raypipe.report.contents import report as written
    from raypipe.report.contents import report_training
    from raypipe.report.finished import open_finished
    from raypipe.report.training import trained_folder

    trained = trained_folder(folder)
    print(written(open_finished(folder)) if trained is None else report_training(trained))


def show(
    folder: PipelineFolder,
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
    as_json: AsJson = False,
) -> None:
    """A query's candidates side by side in every system: ranks, true scores, grades and texts."""
    from raypipe.report.finished import open_finished
    from raypipe.report.show import show as found
    from raypipe.report.show import write_page

    finished = open_finished(folder)
    parts = found(finished, query_id, query_set=query_set, systems=systems or (), num=num)
    written = write_page(finished, parts) if as_page else []
    if as_json:
        print(json.dumps({"sections": [part.section().to_json() for part in parts]}))
    elif as_page:
        print("\n".join(map(str, written)))
    else:
        print("\n\n".join(_text(part, terminal_width()) for part in parts))


def _text(part: "Shown", width: int) -> str:
    from raypipe.report.section import plain
    from raypipe.report.terminal import aligned, folded, values

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
