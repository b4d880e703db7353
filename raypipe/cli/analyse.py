"""The commands analyse: depth, tradeoff, consistency, fusion, queries, training-size; show."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.cli.options import AsJson, Folder, PipelineFolder
from raypipe.cli.terminal import beginning, folded, print_result, terminal_width
from raypipe.cli.terminal import show as show_text
from raypipe.errors import InputError
from raypipe.markdown import Text, joined, plain

if TYPE_CHECKING:
    from raypipe.report.finished import Finished
    from raypipe.report.page import ReportSection
    from raypipe.report.queries import Candidate, PlaceInList, QueryView

NUM_LINES = 2
"""Lines of a candidate's text that are shown."""
QuerySet = Annotated[
    str | None, typer.Option("--queries", help="A query set of the recipe; by default each one.")
]


group = typer.Typer(no_args_is_help=True, help="What the runs of a finished pipeline say.")


@group.command()
def depth(folder: PipelineFolder, query_set: QuerySet = None, as_json: AsJson = False) -> None:
    """Recall of the first stages by depth, and rerankers by their number of candidates."""
    from raypipe.report.first_stages import depth as depth_section

    finished, chosen = _opened(folder, query_set)
    _print([depth_section(finished, each) for each in chosen], as_json)


@group.command()
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
    as_json: AsJson = False,
) -> None:
    """Quality against inferences and time over k0, k1 and the aggregations, from stored scores."""
    from raypipe.report.tradeoff import check_choice
    from raypipe.report.tradeoff import chosen as chosen_sections
    from raypipe.report.tradeoff import tradeoff as tradeoff_sections

    if not 0 <= loss < math.inf:
        raise InputError(f"--loss {loss}: expected a number from 0")
    finished, shown = _opened(folder, query_set)
    if choose_on is not None:
        shown = [each for each in shown if each != choose_on or each == query_set]
        check_choice(finished, choose_on, shown)
    if choose_on is None:
        sections = [part for each in shown for part in tradeoff_sections(finished, each, loss=loss)]
    else:
        sections = chosen_sections(finished, choose_on, shown, loss=loss)
    if not sections:
        raise InputError(
            f"{folder}: expected a duoBERT stage (score with k1) over a monoBERT stage (score with "
            "k0), both run; found none"
        )
    _print(sections, as_json)


@group.command()
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
    from raypipe.report.finished import open_finished
    from raypipe.report.first_stages import consistencies

    _print(consistencies(open_finished(folder), reference, query_set), as_json)


@group.command()
def fusion(folder: PipelineFolder, query_set: QuerySet = None, as_json: AsJson = False) -> None:
    """Every first stage merged in turns with every other, beside the better one alone."""
    from raypipe.report.first_stages import fusion as fusion_section

    finished, chosen = _opened(folder, query_set)
    sections = [part for each in chosen if (part := fusion_section(finished, each)) is not None]
    if not sections:
        raise InputError(
            f"{folder}: expected two first stages or more (search, or read), found fewer"
        )
    _print(sections, as_json)


@group.command()
def queries(
    folder: PipelineFolder,
    query_set: QuerySet = None,
    num: Annotated[int, typer.Option(help="Queries in a list.", min=1)] = 10,
    each: Annotated[bool, typer.Option("--each", help="Also every query's value.")] = False,
    as_json: AsJson = False,
) -> None:
    """The queries that changed most and the hardest; by length and by judgements."""
    from raypipe.report.queries import queries as queries_section

    finished, sets = _opened(folder, query_set)
    _print([queries_section(finished, name, num=num, each=each) for name in sets], as_json)


@group.command()
def training_size(
    folder: PipelineFolder, query_set: QuerySet = None, as_json: AsJson = False
) -> None:
    """The monoBERT stages by the number of examples on which their models were trained."""
    from raypipe.report.training import training_size as size_section

    finished, chosen = _opened(folder, query_set)
    sections = [part for each in chosen if (part := size_section(finished, each)) is not None]
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


def _print(sections: "list[ReportSection]", as_json: bool) -> None:
    from raypipe.report.page import to_text

    body = {"sections": [section.to_json() for section in sections]}
    print_result(body, joined(map(to_text, sections), apart=True), as_json=as_json)


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
    as_json: AsJson = False,
) -> None:
    """A query's candidates side by side in every system: ranks, true scores, grades and texts."""
    from raypipe.report.finished import open_finished
    from raypipe.report.queries import show as query_views

    finished = open_finished(folder)
    parts = query_views(finished, query_id, query_set=query_set, systems=systems or (), num=num)
    if as_json:
        print(json.dumps({"sections": [part.section().to_json() for part in parts]}))
    else:
        texts = (_text(part, terminal_width()) for part in parts)
        show_text(joined(texts, apart=True))


def _text(part: "QueryView", width: int) -> Text:
    """The query, its measures in every system as a table, and a block for each candidate."""
    query, systems = part.query, part.systems
    head = f"query {query.query_id} of {query.query_set}, {part.unit}: {query.text}"
    lines = [line for each in (head, *part.notes) for line in folded(plain(each), width)]
    blocks = [block_of(each, part.names, width) for each in part.candidates]
    none = [Text([f"no system has a candidate among its {part.unit}"])]
    return joined([Text(lines), Text([systems]), *(blocks or none)], apart=True)


def block_of(candidate: "Candidate", systems: Sequence[str], width: int) -> Text:
    """A candidate's grade and id, its rank and true score by system, its text and shared words.

    A score in brackets is of a stage below, which the system left as it was. The text is cut after
    two lines; no line is longer than `width`.
    """
    from raypipe.report.queries import NOT_JUDGED

    grade = NOT_JUDGED if candidate.grade is None else f"grade {candidate.grade}"
    shared = f"shared: {', '.join(candidate.shared)}" if candidate.shared else "no shared word"
    places = "  ".join(_place(candidate.places.get(name), name) for name in systems)
    lines = [
        *folded(places, width - 2),
        *beginning(candidate.text or "no text", width - 2, NUM_LINES),
        *folded(shared, width - 2),
    ]
    head = folded(f"{grade}  {plain(candidate.name)}", width)
    return Text([*head, *(f"  {line}" for line in lines)])


def _place(place: "PlaceInList | None", system: str) -> str:
    if place is None:
        return f"{system} -"
    score = f"{place.score:.4g}"
    return f"{system} {place.rank:,} " + (score if place.scored_by == system else f"({score})")
