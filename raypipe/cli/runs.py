"""The commands compare and leaderboard. They load neither torch, Ray nor Java."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.cli.options import (
    MEASURED,
    READ,
    AsJson,
    Measures,
    Qrels,
    Ties,
    missing,
    refuse_missing,
)
from raypipe.cli.terminal import print_result
from raypipe.errors import InputError, in_one_cell
from raypipe.leaderboard.boards import BOARDS, Board, read_board
from raypipe.markdown import Table, Text
from raypipe.storage.files import appearing

if TYPE_CHECKING:
    from raypipe.evaluation.compare import Compared, Comparison
    from raypipe.leaderboard.rules import Finding
    from raypipe.leaderboard.submission import Submission


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Two or more run files; the first is the baseline."),
    ],
    qrels: Qrels,
    measures: Measures = MEASURED,
    baseline: Annotated[
        Path | None, typer.Option(help="Take another of the runs as the baseline.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the bootstrap and the randomisation test.", min=0)
    ] = 20261121,
    per_query: Annotated[
        Path | None, typer.Option(help="Write a new file with the values of each query.")
    ] = None,
    break_ties: Ties = "id",
    as_json: AsJson = False,
) -> None:
    """Compare runs with a baseline: paired tests, intervals, wins and losses."""
    from raypipe.data.qrels import read_qrels
    from raypipe.evaluation.compare import compare as compared
    from raypipe.evaluation.names import measures_in
    from raypipe.evaluation.run_files.runs import read_run
    from raypipe.evaluation.ties import note_ties, ties_of

    base = runs[0] if baseline is None else baseline
    problems = missing(*runs, qrels)
    problems += [f"{path}: given twice" for path in {p for p in runs if runs.count(p) > 1}]
    if len(runs) < 2:
        problems.append("expected two runs or more, the baseline first")
    if base not in runs:
        problems.append(f"--baseline {base}: expected one of the runs")
    taken = f"--per-query {per_query}: it exists; name a new file"
    if per_query is not None and per_query.exists():
        problems.append(taken)
    if problems:
        raise InputError(problems)
    names = measures_in(measures)
    judged = read_qrels(qrels)
    tables = {str(path): read_run(path, break_ties=break_ties) for path in runs}
    for name, table in tables.items():
        note_ties(name, [ties_of(table)])
    comparisons = compared(
        tables, judged, names, baseline=str(base), seed=seed, qrels_name=str(qrels)
    )
    if per_query is not None:
        try:
            _write_per_query(per_query, comparisons, names, str(base))
        except FileExistsError:
            raise InputError(taken) from None
    body = {
        "baseline": str(base),
        "family": comparisons.family,
        "comparisons": [asdict(row) for row in comparisons.rows],
    }
    print_result(body, _tables(comparisons, names, str(base)), as_json=as_json)


def _tables(comparisons: "Compared", names: list[str], base: str) -> Text:
    lines = list[str | Table]()
    for measure in names:
        rows = [row for row in comparisons.rows if row.measure == measure]
        lines += [f"{measure} (n={rows[0].n})", ""]
        header = ["run", "mean", "difference", "95% interval", "wins/ties/losses", "p (t)"]
        header += ["p (randomisation)", "p (Holm)", "unjudged"]
        lines += [Table("", header, [_cells(row) for row in rows]), ""]
    lines.append(
        f"Differences to {in_one_cell(base)}. Holm's correction covers the {comparisons.family} "
        "comparisons above (runs x measures) and uses the p of the randomisation test. Unjudged: "
        "share of the rows without a judgement, up to the measure's cutoff or 10."
    )
    return Text(lines)


def _cells(row: "Comparison") -> list[str]:
    if row.difference is None:
        return [in_one_cell(row.run), f"{row.mean:.4f}", *["-"] * 6, f"{row.unjudged:.3f}"]
    difference = row.difference
    return [
        in_one_cell(row.run),
        f"{row.mean:.4f}",
        f"{difference.mean:+.4f}",
        f"[{difference.low:+.4f}, {difference.high:+.4f}]",
        difference.signs,
        *("<0.0001" if p < 0.0001 else f"{p:.4f}" for p in _p_values(row)),
        f"{row.unjudged:.3f}",
    ]


def _p_values(row: "Comparison") -> list[float]:
    return [p for p in (row.p_t, row.p_randomisation, row.p_holm) if p is not None]


def _write_per_query(path: Path, comparisons: "Compared", names: list[str], base: str) -> None:
    lines = ["query_id\tmeasure\trun\tvalue\tdifference\n"]
    for measure in names:
        before = comparisons.per_query[base].per_query[measure]
        for run, measured in comparisons.per_query.items():
            lines += [
                f"{query}\t{measure}\t{in_one_cell(run)}\t{value!r}\t{value - before[query]!r}\n"
                for query, value in measured.per_query[measure].items()
            ]
    with appearing(path) as out:
        out.write("".join(lines).encode())


LONGEVAL = "longeval"
"""The task whose hand-in is a folder of runs."""
Task = Annotated[
    str, typer.Option(help=f"Board: {', '.join(BOARDS)}, or a YAML file with one of your own.")
]
Judgements = Annotated[
    list[str] | None,
    typer.Option(
        "--qrels",
        metavar="[NAME=]FILE",
        help="Judgements, to compute the board's measures; with a name where it has several.",
    ),
]
Fewer = Annotated[
    bool, typer.Option("--allow-fewer-rows", help="Accept queries with fewer rows than usual.")
]


group = typer.Typer(
    no_args_is_help=True,
    help="Check a run against the rules of a leaderboard, or pack a submission with metadata.",
)


@group.command()
def template(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar=f"[{READ}]", help="A workspace with snapshots, for longeval."),
    ] = None,
    task: Task = "msmarco-passage",
    query_set: Annotated[
        str | None, typer.Option("--queries", help="The query set; by default the only one.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="The stage that is handed in; by default the last one.")
    ] = None,
) -> None:
    """Print the metadata that a board asks for, to be filled in for pack."""
    import json

    from raypipe.leaderboard.submission import metadata_template

    if task != LONGEVAL:
        if folder or query_set or system:
            raise InputError(f"--task {task}: no workspace is read for it; name the task alone")
        print(json.dumps(metadata_template(_board(task)), indent=2))
        return
    from raypipe.leaderboard.longeval import metadata_text
    from raypipe.report.ir_metadata import ir_metadata

    if folder is None:
        raise InputError(f"--task {task}: expected the workspace with its snapshots")
    print(metadata_text(ir_metadata(folder, query_set, system)), end="")


@group.command()
def check(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run file: TREC, MS MARCO or Parquet; for longeval a folder with "
            "SNAPSHOT/run.txt.gz."
        ),
    ],
    task: Task,
    queries: Annotated[
        Path | None, typer.Option(help="The queries that the run must cover.")
    ] = None,
    qrels: Judgements = None,
    allow_fewer_rows: Fewer = False,
    break_ties: Ties = "id",
    as_json: AsJson = False,
) -> None:
    """Check a run against every rule of a leaderboard; exits with 2 if rules are broken."""
    from raypipe.leaderboard.rules import refuse_broken
    from raypipe.leaderboard.submission import RunSide, verdict

    board = _board(task)
    if task == LONGEVAL:
        _refuse_given(task, {"--queries": queries, "--qrels": qrels})
        from raypipe.leaderboard.longeval import check as check_longeval

        _print_and_refuse(check_longeval(run, break_ties=break_ties), as_json)
        return
    judgements = _judgements(board, qrels or [])
    refuse_missing(run, queries, *judgements.values())
    side = RunSide(run=run, queries=queries, qrels=judgements, break_ties=break_ties)
    findings = verdict(board, side, fewer_rows=allow_fewer_rows).findings
    print_result({"rules": [f.to_json() for f in findings]}, _text(findings), as_json=as_json)
    refuse_broken(findings)


@group.command()
def pack(
    eval_run: Annotated[
        Path, typer.Option("--eval", help="The run to submit; for longeval its folder.")
    ],
    id: Annotated[
        str, typer.Option(help="Submission id, yyyymmdd-name; for a TREC task the run tag.")
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the submission, usually the workspace.")
    ],
    dev: Annotated[
        Path | None, typer.Option(help="The dev run, which --qrels then judges, for MS MARCO.")
    ] = None,
    metadata: Annotated[
        Path | None, typer.Option(help="What the board asks for, as `template` prints it.")
    ] = None,
    task: Task = "msmarco-passage",
    dev_queries: Annotated[Path | None, typer.Option(help="The dev queries.")] = None,
    eval_queries: Annotated[Path | None, typer.Option(help="The eval queries.")] = None,
    qrels: Judgements = None,
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
    from raypipe.leaderboard.submission import RunSide
    from raypipe.leaderboard.submission import pack as packed

    board = _board(task)
    if task == LONGEVAL:
        others: dict[str, object] = {
            "--dev": dev,
            "--dev-queries": dev_queries,
            "--eval-queries": eval_queries,
        }
        others |= {"--fill-dev": fill_dev, "--fill-eval": fill_eval, "--qrels": qrels}
        _refuse_given(task, others)
        refuse_missing(metadata)
        from raypipe.leaderboard.longeval import pack as pack_longeval

        packed_folder = pack_longeval(
            eval_run, submission=id, metadata=metadata, out=out, break_ties=break_ties
        )
        _print_submission(packed_folder, as_json)
        return
    judgements = _judgements(board, qrels or [])
    facts = board.facts
    required = [
        ("--dev", dev or "dev" not in board.query_sets),
        ("--metadata", metadata or facts is None or not facts.asked),
        ("--qrels", judgements or facts is None or "figure" not in facts.fields.values()),
    ]
    if lacking := [f"{flag}: missing; {task} requires it" for flag, given in required if not given]:
        raise InputError(lacking)
    files = [eval_run, dev, metadata, dev_queries, eval_queries, *judgements.values()]
    refuse_missing(*files, fill_dev, fill_eval, submissions)
    of_eval = RunSide(
        run=eval_run,
        queries=eval_queries,
        qrels={} if dev else judgements,
        fill=fill_eval,
        break_ties=break_ties,
    )
    sides = {"eval": of_eval}
    if dev is not None:
        of_dev = RunSide(
            run=dev, queries=dev_queries, qrels=judgements, fill=fill_dev, break_ties=break_ties
        )
        sides = {"dev": of_dev, **sides}
    submission = packed(
        board,
        sides,
        submission=id,
        metadata=metadata,
        out=out,
        fewer_rows=allow_fewer_rows,
        earlier=[submissions] if submissions else [],
    )
    _print_submission(submission, as_json)


def _print_submission(submission: "Submission", as_json: bool) -> None:
    from raypipe.leaderboard.rules import rules_to_json

    blocks = [f"{name}\n{_text(of_side)}" for name, of_side in submission.findings.items()]
    body = {
        "folder": str(submission.folder),
        "measure": submission.measure,
        "rules": rules_to_json(submission.findings),
    }
    print_result(body, "\n".join([*blocks, f"written: {submission.folder}"]), as_json=as_json)


def _print_and_refuse(findings: "dict[str, list[Finding]]", as_json: bool) -> None:
    """Print the findings about several runs; raise InputError if a rule is broken."""
    from raypipe.leaderboard.rules import refuse_broken, rules_to_json, with_names

    text = "\n".join(f"{name}\n{_text(of_run)}" for name, of_run in findings.items())
    print_result({"rules": rules_to_json(findings)}, text, as_json=as_json)
    refuse_broken(with_names(findings))


def _refuse_given(task: str, options: Mapping[str, object]) -> None:
    """Returns nothing if none of the options is given.

    Raises:
        InputError: those that are.
    """
    given = [f"{option}: not for --task {task}; leave it out" for option, v in options.items() if v]
    if given:
        raise InputError(given)


def _board(task: str) -> Board:
    if task in BOARDS:
        return BOARDS[task]
    if task.endswith((".yaml", ".yml")):
        return read_board(Path(task))
    expected = f"expected one of {', '.join(BOARDS)}, or a YAML file with one of your own"
    raise InputError(f"--task: {expected}; found {task!r}")


def _judgements(board: Board, given: list[str]) -> dict[str, Path]:
    """Name -> file of each set of judgements; one without a name where the board has no names."""
    if not given:
        return {}
    if not board.judgements:
        if len(given) > 1:
            raise InputError(f"--qrels: expected one file for {board.task}; found {len(given)}")
        return {"": Path(given[0])}
    names = {name.lower(): name for name in board.judgements}
    files = {names.get(word.partition("=")[0].lower()): word.partition("=")[2] for word in given}
    if {*files} != {*board.judgements} or len(given) != len(files):
        expected = " and ".join(f"--qrels {name}=FILE" for name in board.judgements)
        raise InputError(f"--qrels: expected {expected}; found {' '.join(given)}")
    return {name: Path(files[name]) for name in board.judgements}


def _text(findings: "list[Finding]") -> str:
    def mark(finding: "Finding") -> str:
        if not finding.applies:
            return "-"
        return "ok" if finding.ok else "BROKEN"

    return "\n".join(f"  {mark(f):6} {f.rule}: {f.detail}" for f in findings)
