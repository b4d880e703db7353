"""Commands for submissions: leaderboard check and pack. They load neither torch, Ray nor Java."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.cli.given import on_disk
from raypipe.cli.options import AsJson
from raypipe.cli.ties import Ties, checked
from raypipe.errors import InputError

if TYPE_CHECKING:
    from raypipe.leaderboard.boards import Board
    from raypipe.leaderboard.findings import Finding

Task = Annotated[
    str, typer.Option(help="Board: msmarco-passage, msmarco-doc, trec-dl, trec-car or local.")
]
Fewer = Annotated[
    bool, typer.Option("--allow-fewer-rows", help="Accept queries with fewer rows than usual.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Check a run against the rules of a leaderboard, or pack a submission with metadata.",
    )
    group.command()(template)
    group.command()(check)
    group.command()(pack)
    app.add_typer(group, name="leaderboard")


def template(task: Task = "msmarco-passage") -> None:
    """Print the metadata that a board asks for, as JSON to be filled in for pack."""
    import json

    from raypipe.leaderboard.metadata import metadata_template

    print(json.dumps(metadata_template(_board(task)), indent=2))


def check(
    run: Annotated[Path, typer.Argument(help="A run file: TREC, MS MARCO or Parquet.")],
    task: Task,
    queries: Annotated[
        Path | None, typer.Option(help="The queries that the run must cover.")
    ] = None,
    qrels: Annotated[
        Path | None, typer.Option(help="Judgements, to compute the board's own measure.")
    ] = None,
    allow_fewer_rows: Fewer = False,
    break_ties: Ties = "id",
    as_json: AsJson = False,
) -> None:
    """Check a run against every rule of a leaderboard; exits with 2 if rules are broken."""
    from raypipe.cli.output import print_result
    from raypipe.data.qrels import read_qrels
    from raypipe.data.queries import read_queries
    from raypipe.leaderboard.findings import does_not_apply, holds, refuse_broken
    from raypipe.leaderboard.lines import read_run_lines
    from raypipe.leaderboard.rules import check_lines
    from raypipe.leaderboard.script import reciprocal_rank

    board = _board(task)
    _refuse_missing(run, queries, qrels)
    ties = checked(break_ties)
    lines = read_run_lines(run, break_ties=ties)
    ids = [query for query, _ in read_queries(queries)] if queries else None
    findings = check_lines(lines, board, queries=ids, fewer_rows=allow_fewer_rows, break_ties=ties)
    if board.cutoff is None or qrels is None:
        why = "no qrels were named" if board.cutoff else f"{task} has no script of its own"
        findings.append(does_not_apply("measure", why))
    elif all(finding.ok for finding in findings):
        value, num = reciprocal_rank(lines.rankings(), read_qrels(qrels), cutoff=board.cutoff)
        findings.append(holds("measure", f"MRR @{board.cutoff}: {value!r} over {num:,} queries"))
    print_result({"rules": [f.to_json() for f in findings]}, _text(findings), as_json=as_json)
    refuse_broken(findings)


def pack(
    eval_run: Annotated[Path, typer.Option("--eval", help="The run to submit.")],
    id: Annotated[
        str, typer.Option(help="Submission id, yyyymmdd-name; for a TREC task the run tag.")
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the submission, usually the workspace.")
    ],
    dev: Annotated[
        Path | None, typer.Option(help="The dev run; required by MS MARCO's boards.")
    ] = None,
    metadata: Annotated[
        Path | None, typer.Option(help="Metadata, JSON; required by MS MARCO's boards.")
    ] = None,
    task: Task = "msmarco-passage",
    dev_queries: Annotated[Path | None, typer.Option(help="The dev queries.")] = None,
    eval_queries: Annotated[Path | None, typer.Option(help="The eval queries.")] = None,
    qrels: Annotated[Path | None, typer.Option(help="Judgements of the dev queries.")] = None,
    fill_dev: Annotated[
        Path | None, typer.Option(help="A run that fills dev queries with too few rows.")
    ] = None,
    fill_eval: Annotated[
        Path | None, typer.Option(help="A run that fills eval queries with too few rows.")
    ] = None,
    submissions: Annotated[
        Path | None, typer.Option(help="Folder with earlier submissions' ID-metadata.json files.")
    ] = None,
    allow_fewer_rows: Fewer = False,
    break_ties: Ties = "id",
    as_json: AsJson = False,
) -> None:
    """Write the files of a submission, only if every rule holds."""
    from raypipe.cli.output import print_result
    from raypipe.leaderboard.pack import pack as packed
    from raypipe.leaderboard.side import RunSide

    board = _board(task)
    wanted = [("--dev", dev), ("--metadata", metadata)]
    lacking = [f"{flag}: missing; {task} requires it" for flag, path in wanted if path is None]
    if board.metadata and lacking:
        raise InputError(lacking)
    _refuse_missing(
        eval_run, dev, metadata, dev_queries, eval_queries, qrels, fill_dev, fill_eval, submissions
    )
    ties = checked(break_ties)
    of_eval = RunSide(run=eval_run, queries=eval_queries, fill=fill_eval, break_ties=ties)
    sides = {"eval": of_eval}
    if dev is not None:
        of_dev = RunSide(run=dev, queries=dev_queries, qrels=qrels, fill=fill_dev, break_ties=ties)
        sides = {"dev": of_dev, **sides}
    found = packed(
        board,
        sides,
        submission=id,
        metadata=metadata,
        out=out,
        fewer_rows=allow_fewer_rows,
        earlier=[submissions] if submissions else [],
    )
    blocks = [f"{name}\n{_text(of_side)}" for name, of_side in found.findings.items()]
    body = {
        "folder": str(found.folder),
        "measure": found.measure,
        "rules": {name: [f.to_json() for f in of] for name, of in found.findings.items()},
    }
    print_result(body, "\n".join([*blocks, f"written: {found.folder}"]), as_json=as_json)


def _board(task: str) -> "Board":
    from raypipe.leaderboard.boards import BOARDS

    if task not in BOARDS:
        raise InputError(f"--task: expected one of {', '.join(BOARDS)}; found {task!r}")
    return BOARDS[task]


def _refuse_missing(*paths: Path | None) -> None:
    given = [place for path in paths if path is not None for place in on_disk(path)]
    missing = [f"{path}: no such file" for path in given if not path.exists()]
    if missing:
        raise InputError(missing)


def _text(findings: "list[Finding]") -> str:
    def mark(finding: "Finding") -> str:
        if not finding.applies:
            return "-"
        return "ok" if finding.ok else "BROKEN"

    return "\n".join(f"  {mark(f):6} {f.rule}: {f.detail}" for f in findings)
