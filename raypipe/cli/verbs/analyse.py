"""The commands report and analyse: depth, tradeoff, consistency, fusion, movers and queries."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.errors import InputError

if TYPE_CHECKING:
    from raypipe import config
    from raypipe.analysis.section import Section
    from raypipe.driver.analysis.finished import Finished

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A pipeline's workspace.")]
QuerySet = Annotated[
    str | None, typer.Option("--queries", help="A query set of the recipe; by default each one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    analyse = typer.Typer(no_args_is_help=True, help="What the runs of a finished pipeline say.")
    for verb in (depth, tradeoff, consistency, fusion, movers, queries):
        analyse.command()(verb)
    app.add_typer(analyse, name="analyse")
    app.command()(report)


def report(folder: Folder) -> None:
    """Write DIR/report.html, one page of what the runs say, and its numbers as analysis/*.json."""
    from raypipe.driver.analysis.finished import open_finished
    from raypipe.driver.analysis.report import report as written

    print(written(open_finished(folder)))


def depth(folder: Folder, query_set: QuerySet = None, as_json: AsJson = False) -> None:
    """Recall of the first stages by depth, and rerankers by their number of candidates."""
    from raypipe.driver.analysis.depth import depth as found

    finished, chosen = _opened(folder, query_set)
    _print([found(finished, each) for each in chosen], as_json)


def tradeoff(
    folder: Folder,
    query_set: QuerySet = None,
    loss: Annotated[
        float, typer.Option(help="Name the cheapest cell that is at most this far below the best.")
    ] = 0.005,
    as_json: AsJson = False,
) -> None:
    """Quality against inferences and time over k0, k1 and the aggregations, from stored scores."""
    from raypipe.driver.analysis.tradeoff import tradeoff as found

    finished, chosen = _opened(folder, query_set)
    _print([part for each in chosen for part in found(finished, each, loss=loss)], as_json)


def consistency(
    folder: Folder,
    reference: Annotated[
        Path, typer.Option(help="A run file: what the reranker's negatives were taken from.")
    ],
    query_set: QuerySet = None,
    as_json: AsJson = False,
) -> None:
    """The share of each first stage's passages that a reference run has too, by depth."""
    from raypipe.driver.analysis.consistency import consistency as found

    finished, chosen = _opened(folder, query_set)
    _print([found(finished, each, reference) for each in chosen], as_json)


def fusion(folder: Folder, query_set: QuerySet = None, as_json: AsJson = False) -> None:
    """Every first stage merged in turns with every other, beside the better one alone."""
    from raypipe.driver.analysis.fusion import fusion as found

    finished, chosen = _opened(folder, query_set)
    _print([found(finished, each) for each in chosen], as_json)


def movers(
    folder: Folder,
    query_set: QuerySet = None,
    num: Annotated[int, typer.Option(help="Passages of each direction.", min=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """The passages that each reranker moved furthest, with their texts and grades."""
    from raypipe.driver.analysis.movers import movers as found

    finished, chosen = _opened(folder, query_set)
    _print([found(finished, each, num=num) for each in chosen], as_json)


def queries(
    folder: Folder,
    query_set: QuerySet = None,
    num: Annotated[int, typer.Option(help="Queries in a list.", min=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """The queries that changed most and the hardest, and measures by length and judgements."""
    from raypipe.driver.analysis.queries import queries as found

    finished, chosen = _opened(folder, query_set)
    _print([found(finished, each, num=num) for each in chosen], as_json)


def _opened(folder: Path, query_set: str | None) -> "tuple[Finished, list[str]]":
    """The workspace, and the query sets with judgements or the one that is named."""
    from raypipe.driver.analysis.finished import open_finished

    finished = open_finished(folder)
    if query_set is not None and query_set not in finished.query_sets:
        raise InputError(f"--queries {query_set}: expected one of {', '.join(finished.query_sets)}")
    measured = [
        name
        for name in finished.summary["measures"]
        if not _by_document_alone(finished.recipe.queries[name])
    ]
    chosen = [query_set] if query_set is not None else measured
    if not chosen and finished.summary["measures"]:
        raise InputError(
            f"{folder}: no query set has judgements of passages, only of documents; `raypipe "
            "report` tells of their runs, and `analyse` needs qrels under queries in the recipe"
        )
    if not chosen:
        raise InputError(
            f"{folder}: no query set was measured; add qrels and evaluate to the recipe"
        )
    return finished, chosen


def _by_document_alone(queries: "config.QuerySet") -> bool:
    """Whether it has judgements of documents only; builtin sets and topics name no file."""
    return queries.document_qrels is not None and queries.qrels is None


def _print(sections: "list[Section]", as_json: bool) -> None:
    from raypipe.analysis.section import to_text

    if as_json:
        print(json.dumps({"sections": [section.to_json() for section in sections]}))
    else:
        print("\n\n".join(map(to_text, sections)))
