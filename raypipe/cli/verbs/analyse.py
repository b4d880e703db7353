"""The commands analyse: depth, tradeoff, consistency, fusion, queries, training-size."""

import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.cli.options import AsJson, PipelineFolder
from raypipe.errors import InputError

if TYPE_CHECKING:
    from raypipe.report.finished import Finished
    from raypipe.report.section import Section

QuerySet = Annotated[
    str | None, typer.Option("--queries", help="A query set of the recipe; by default each one.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    analyse = typer.Typer(no_args_is_help=True, help="What the runs of a finished pipeline say.")
    for verb in (depth, tradeoff, consistency, fusion, queries, training_size):
        analyse.command()(verb)
    app.add_typer(analyse, name="analyse")


def depth(folder: PipelineFolder, query_set: QuerySet = None, as_json: AsJson = False) -> None:
    """Recall of the first stages by depth, and rerankers by their number of candidates."""
    from raypipe.report.depth import depth as found

    finished, chosen = _opened(folder, query_set)
    _print([found(finished, each) for each in chosen], as_json)


def tradeoff(
    folder: PipelineFolder,
    query_set: QuerySet = None,
    loss: Annotated[
        float, typer.Option(help="Name the cheapest cell that is at most this far below the best.")
    ] = 0.005,
    choose_on: Annotated[
        str | None,
        typer.Option(help="Choose the cell on this query set, and show it on the others."),
    ] = None,
    fill: Annotated[
        bool,
        typer.Option("--fill", help="First score the pairs that the cells lack, beside the runs."),
    ] = False,
    allow_open_cluster: Annotated[
        bool,
        typer.Option(
            "--allow-open-cluster",
            help="With --fill: accept a cluster without token authentication.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Quality against inferences and time over k0, k1 and the aggregations, from stored scores."""
    from raypipe.report.tradeoff import check_choice
    from raypipe.report.tradeoff import chosen as found_elsewhere
    from raypipe.report.tradeoff import tradeoff as found

    if not 0 <= loss < math.inf:
        raise InputError(f"--loss {loss}: expected a number from 0")
    finished, shown = _opened(folder, query_set)
    if choose_on is not None:
        shown = [each for each in shown if each != choose_on or each == query_set]
        check_choice(finished, choose_on, shown)
    if fill:
        _fill(finished, [*([] if choose_on is None else [choose_on]), *shown], allow_open_cluster)
    if choose_on is None:
        sections = [part for each in shown for part in found(finished, each, loss=loss)]
    else:
        sections = found_elsewhere(finished, choose_on, shown, loss=loss)
    if not sections:
        raise InputError(
            f"{folder}: expected a duoBERT stage (score with k1) over a monoBERT stage (score with "
            "k0), both run; found none"
        )
    _print(sections, as_json)


def _fill(finished: "Finished", query_sets: list[str], allow_open_cluster: bool) -> None:
    from raypipe.driver.report.lines import to_stderr
    from raypipe.driver.report.progress import TerminalWatcher
    from raypipe.report.fill import fill

    with TerminalWatcher(sys.stderr) as watcher:
        fill(
            finished,
            query_sets,
            watcher=watcher,
            say=to_stderr,
            ray_address=os.environ.get("RAY_ADDRESS"),
            allow_open_cluster=allow_open_cluster,
        )


def consistency(
    folder: PipelineFolder,
    reference: Annotated[
        str,
        typer.Option(
            help="A run file, or a system of the recipe: what the reranker's negatives were taken "
            "from."
        ),
    ],
    query_set: QuerySet = None,
    as_json: AsJson = False,
) -> None:
    """The share of each first stage's passages that a reference run has too, by depth."""
    from raypipe.report.consistency import consistencies
    from raypipe.report.finished import open_finished

    _print(consistencies(open_finished(folder), reference, query_set), as_json)


def fusion(folder: PipelineFolder, query_set: QuerySet = None, as_json: AsJson = False) -> None:
    """Every first stage merged in turns with every other, beside the better one alone."""
    from raypipe.report.fusion import fusion as found

    finished, chosen = _opened(folder, query_set)
    sections = [part for each in chosen if (part := found(finished, each)) is not None]
    if not sections:
        raise InputError(
            f"{folder}: expected two first stages or more (search, or read), found fewer"
        )
    _print(sections, as_json)


def queries(
    folder: PipelineFolder,
    query_set: QuerySet = None,
    num: Annotated[int, typer.Option(help="Queries in a list.", min=1)] = 10,
    each: Annotated[bool, typer.Option("--each", help="Also every query's value.")] = False,
    as_json: AsJson = False,
) -> None:
    """The queries that changed most and the hardest; by length and by judgements."""
    from raypipe.report.queries import queries as found

    finished, sets = _opened(folder, query_set)
    _print([found(finished, name, num=num, each=each) for name in sets], as_json)


def training_size(
    folder: PipelineFolder, query_set: QuerySet = None, as_json: AsJson = False
) -> None:
    """The monoBERT stages by the number of examples on which their models were trained."""
    from raypipe.report.training import training_size as found

    finished, chosen = _opened(folder, query_set)
    sections = [part for each in chosen if (part := found(finished, each)) is not None]
    if not sections:
        raise InputError(
            f"{folder}: expected two monoBERT stages (score with k0) or more over the same "
            "candidates, with models that `raypipe train` made of different sizes; found none"
        )
    _print(sections, as_json)


def _opened(folder: Path, query_set: str | None) -> "tuple[Finished, list[str]]":
    """The workspace, and the query sets with judgements or the one that is named."""
    from raypipe.report.finished import open_finished

    finished = open_finished(folder)
    chosen = finished.chosen(query_set)
    if query_set is None:
        chosen = [name for name in chosen if finished.measured(name)]
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


def _print(sections: "list[Section]", as_json: bool) -> None:
    from raypipe.cli.output import print_result
    from raypipe.report.section import to_text

    found = {"sections": [section.to_json() for section in sections]}
    print_result(found, "\n\n".join(map(to_text, sections)), as_json=as_json)
