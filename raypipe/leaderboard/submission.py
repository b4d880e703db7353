"""A submission: its id, metadata and runs, checked completely, then written completely."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.evaluation.exports import lowered, write_msmarco, write_trec
from raypipe.evaluation.run_files.runs import read_run
from raypipe.leaderboard.boards import BOARDS, SCRIPTS, Board, Kind
from raypipe.leaderboard.rules import (
    Finding,
    RunLines,
    broken,
    check_lines,
    check_open,
    does_not_apply,
    holds,
    of_table,
    read_run_lines,
    refuse_broken,
    rules_to_json,
    tagged,
    with_names,
)
from raypipe.regular import check_folder, check_regular
from raypipe.storage.files import appear, folder_beside, replace_file
from raypipe.vocabulary import BreakTies

EMBARGO_MONTHS = 9
DAYS = 30
MOST = 2


@dataclass(frozen=True, slots=True)
class Filled:
    """The rankings to be written."""

    rankings: dict[str, list[str]]
    num_queries: int
    """Number of queries that got rows."""
    num_rows: int


def fill(
    rankings: Mapping[str, Sequence[str]],
    earlier: Mapping[str, Sequence[str]],
    *,
    queries: Sequence[str],
    depth: int | None,
) -> Filled:
    """Each query's passages, followed up to `depth` by missing ones from the earlier run.

    Queries are in the order of `queries`; one that neither run has gets no rows.
    """
    filled: dict[str, list[str]] = {}
    num_queries = num_rows = 0
    for query in queries:
        own = list(rankings.get(query, ()))
        before = len(own)
        if depth is not None and before < depth:
            known = set(own)
            more = [passage for passage in earlier.get(query, ()) if passage not in known]
            own += more[: depth - before]
        num_queries += len(own) > before
        num_rows += len(own) - before
        if own:
            filled[query] = own
    return Filled(filled, num_queries, num_rows)


Scores = Mapping[str, Mapping[str, float]]
"""Query -> passage -> score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSide:
    """One run to submit, and what it is checked against."""

    run: Path
    queries: Path | None = None
    qrels: Mapping[str, Path] = field(default_factory=dict)
    """Its judgements by the board's names of them; the name is empty where a board has no names."""
    fill: Path | None = None
    """An earlier run whose rows fill queries with too few."""
    break_ties: BreakTies = "id"
    """How equal scores of both runs are ordered; see `read_run`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Findings of a board on a run, and the rows to hand in."""

    findings: list[Finding]
    filled: Filled | None
    """None if a rule is broken."""
    scores: Scores | None
    """Scores of those rows for a TREC file; None if the rows leave as MS MARCO's."""
    figures: dict[str, float]
    """Values of the board's measures (`Board.figures`); none if the side has no judgements."""


def verdict(
    board: Board, side: RunSide, *, query_set: str | None = None, fewer_rows: bool = False
) -> Verdict:
    """The findings about every rule, for `check` and `pack` alike: they agree on one file.

    A rule is about the file as it is, but for the rows that an earlier run fills in.

    Args:
        board: the board with the rules.
        side: the run, and what it is checked against.
        query_set: which of the board's query sets it is (dev, eval); None means any.
        fewer_rows: accept queries with fewer rows than the board's script expects.

    Raises:
        InputError: a file that is not a run.
    """
    queries = None if side.queries is None else [query for query, _ in read_queries(side.queries)]
    lines = read_run_lines(side.run, form=board.form, break_ties=side.break_ties)
    check = partial(check_lines, board=board, queries=queries, query_set=query_set)
    findings = [check_open(board)]
    findings += check(lines, fewer_rows=fewer_rows, break_ties=side.break_ties)
    filled = scores = None
    if side.fill is not None:
        findings = [finding for finding in findings if finding.rule not in FILLED_RULES]
    if all(finding.ok for finding in findings):
        filled, scores = filled_run(board, side, lines, queries)
        if side.fill is not None:
            rows = f"{filled.num_rows:,} rows of {filled.num_queries:,} queries"
            whole = of_table(rows_to_write(filled, scores), side.run)
            of_whole = check(whole, fewer_rows=fewer_rows)
            findings += [finding for finding in of_whole if finding.rule in FILLED_RULES]
            findings.append(holds("filled", f"{rows} from {side.fill.name}"))
    if not all(finding.ok for finding in findings):
        filled = None
    measured, figures = _measured(board, side, filled)
    return Verdict([*findings, *measured], filled, scores, figures)


FILLED_RULES = ("passage ids", "query ids", "rows", "query set")
"""The rules that an earlier run's rows count for."""


def filled_run(
    board: Board, side: RunSide, lines: RunLines, queries: Sequence[str] | None
) -> tuple[Filled, Scores | None]:
    """The rankings to write, and their scores if they are written as a TREC file.

    `queries` are the ids of the side's queries, if it has them.
    """
    form = lines.form
    if form == "trec":  # the scores decide, as in trec_eval
        lines = _read_ranking(side.run, board, side.break_ties)
    rankings = lines.rankings()
    before = None if side.fill is None else _read_ranking(side.fill, board, side.break_ties)
    earlier = before.rankings() if before is not None else {}
    named = list(dict.fromkeys([*(queries or ()), *rankings]))
    filled = fill(rankings, earlier, queries=named, depth=_depth(board, rankings))
    writes_trec = board.form == "trec" or (board.form == "any" and form == "trec")
    return filled, _scores(filled, lines, before) if writes_trec else None


def _scores(filled: Filled, own: RunLines, earlier: RunLines | None) -> Scores:
    """The score of every row in the run that it comes from."""
    by_query: dict[str, dict[str, float]] = {query: {} for query in filled.rankings}
    for run in (earlier, own):  # the run's own scores override the earlier run's
        if run is not None:
            scores = run.scores()
            for query, passages in run.rankings().items():
                if query in by_query:
                    by_query[query].update(zip(passages, scores[query], strict=True))
    return by_query


def _read_ranking(path: Path, board: Board, break_ties: BreakTies) -> RunLines:
    """The run in the order that counts: for a TREC file, that of its scores, as in read_run."""
    lines = read_run_lines(path, form=board.form, break_ties=break_ties)
    return of_table(read_run(path, break_ties=break_ties), path) if lines.form == "trec" else lines


def _depth(board: Board, rankings: Mapping[str, Sequence[str]]) -> int | None:
    first = next((passages[0] for passages in rankings.values() if passages), "")
    return next((n for pattern, n in board.depths.items() if re.fullmatch(pattern, first)), None)


def rows_to_write(filled: Filled, scores: Scores | None) -> pa.Table:
    """The rows to write, schema.RUN_FILE; scores strictly decrease; 1/rank if there are none."""
    queries = [query for query, passages in filled.rankings.items() for _ in passages]
    passages = [passage for ranking in filled.rankings.values() for passage in ranking]
    lengths = [len(ranking) for ranking in filled.rankings.values()]
    rank = np.concatenate([np.arange(1, n + 1) for n in (*lengths, 0)])
    score = (1 / rank).astype(np.float32)
    if scores is not None:
        own = [scores[query][passage] for query, passage in zip(queries, passages, strict=True)]
        score = lowered(np.array(own, np.float32), np.repeat(np.arange(len(lengths)), lengths))
    columns = [queries, passages, rank.astype(np.int32), score]
    return pa.table(columns, schema=schema.RUN_FILE)


@dataclass(frozen=True, slots=True)
class Submission:
    """The written submission."""

    folder: Path
    findings: dict[str, list[Finding]]
    """The findings by side (dev, eval) and for `submission`."""
    measure: dict[str, float]
    """The board's figures, on dev if there is a dev run."""


def pack(
    board: Board,
    sides: Mapping[str, RunSide],
    *,
    submission: str,
    metadata: Path | None,
    out: Path,
    fewer_rows: bool = False,
    earlier: Sequence[Path] = (),
) -> Submission:
    """Check every rule, then write the files of the submission.

    They are out/leaderboard/submissions/ID/{dev,eval}.txt.bz2 (TREC files: .trec), the board's file
    of facts, and leaderboard/check.json.

    Raises:
        InputError: every broken rule, and nothing is written; the id exists with other files; or
            a file is in the place of the folder.
    """
    folder = out / "leaderboard" / "submissions"
    check_folder(folder, "--out ")
    body = read_metadata(metadata) if metadata is not None else {}
    findings = {"submission": check_metadata(board, submission, body, [folder, *earlier])}
    verdicts = {
        name: verdict(board, side, query_set=name, fewer_rows=fewer_rows)
        for name, side in sides.items()
    }
    findings |= {name: of_side.findings for name, of_side in verdicts.items()}
    refuse_broken(with_names(findings))
    figures = {name: v for of_side in verdicts.values() for name, v in of_side.figures.items()}
    _write(board, folder, submission, verdicts, _facts(board, body, figures))
    packed = Submission(folder / submission, findings, figures)
    write_check(out, board.task, packed)
    return packed


def write_check(out: Path, task: str, packed: Submission) -> None:
    """Write out/leaderboard/check.json."""
    rules = rules_to_json(packed.findings)
    check = {"task": task, "id": packed.folder.name, "measure": packed.measure, "rules": rules}
    replace_file(out / "leaderboard" / "check.json", json.dumps(check, indent=1).encode() + b"\n")


def _measured(
    board: Board, side: RunSide, filled: Filled | None
) -> tuple[list[Finding], dict[str, float]]:
    """The findings about the measures, and the figures; none of a run with a broken rule."""
    rule = "measure"
    if not board.measures:
        detail = f"{board.task} names none; `raypipe evaluate` computes any"
        return [does_not_apply(rule, detail)], {}
    if not side.qrels:
        return [does_not_apply(rule, "no qrels were named")], {}
    if filled is None:
        return [], {}
    findings, figures = list[Finding](), {}
    for judgements, path in side.qrels.items():
        qrels = read_qrels(path)
        if not set(qrels["query_id"].to_pylist()) & set(filled.rankings):
            findings.append(broken(rule, f"{path} judges no query of the run"))
            continue
        for measure, (value, num) in _values(board.measures, filled, qrels).items():
            figure = f"{judgements} {measure}".strip()
            figures[figure] = value
            findings.append(holds(rule, f"{figure}: {value!r} over {num:,} queries of the qrels"))
    return findings, figures


def _values(
    measures: Sequence[str], filled: Filled, qrels: pa.Table
) -> dict[str, tuple[float, int]]:
    """Measure -> (value, number of queries), by the board's script or else by ir_measures."""
    from raypipe.evaluation.measures import evaluate

    named = [measure for measure in measures if measure not in SCRIPTS]
    if named:
        measured = evaluate(rows_to_write(filled, None), qrels, named, warn=False)
    return {
        measure: SCRIPTS[measure](filled.rankings, qrels)
        if measure in SCRIPTS
        else (measured.mean[measure], measured.num_topics[measure])
        for measure in measures
    }


def _facts(
    board: Board, given: Mapping[str, Any], figures: Mapping[str, float]
) -> dict[str, Any] | None:
    """The board's file of facts, figures to four digits as trec_eval prints them."""
    if board.facts is None:
        return None
    values = {**given, **{name: round(value, 4) for name, value in figures.items()}}
    return {name: values[name] for name in board.facts.fields if name in values}


def _write(
    board: Board,
    folder: Path,
    submission: str,
    verdicts: Mapping[str, Verdict],
    facts: Mapping[str, Any] | None,
) -> None:
    """Write everything under another name first; the folder of the id appears complete."""
    target = folder / submission
    text = json.dumps(facts, indent=2, ensure_ascii=False).encode() + b"\n"
    with folder_beside(target) as beside:
        for name, of_side in verdicts.items():
            assert of_side.filled is not None
            table = rows_to_write(of_side.filled, of_side.scores)
            if of_side.scores is not None:
                write_trec(table, beside / f"{name}.trec", tag=submission)
            else:
                write_msmarco(table, beside / f"{name}.txt.bz2")
        metadata_file = None
        if board.facts is not None and board.dated:
            metadata_file = folder / f"{submission}-{board.facts.name}"
        elif board.facts is not None:
            (beside / board.facts.name).write_bytes(text)
        if metadata_file and metadata_file.exists() and metadata_file.read_bytes() != text:
            raise InputError(
                f"{metadata_file}: it exists with other metadata; give a new id, or remove it"
            )
        appear_once(beside, target)
        if metadata_file:
            replace_file(metadata_file, text)


def appear_once(new: Path, target: Path) -> None:
    """Put a submission's finished folder in its place, where the same may stand already.

    Raises:
        InputError: something else stands there.
    """
    if not target.exists():
        appear(new, target)
        return
    before, after = (
        {path.relative_to(each): path.read_bytes() for path in each.rglob("*") if path.is_file()}
        for each in (target, new)
    )
    if before != after:
        raise InputError(
            f"{target}: a submission of this id exists with other files; give a new id, or "
            "remove that folder if it was never submitted"
        )


def metadata_template(board: Board) -> dict[str, str]:
    """The facts that a board asks a user for, to be filled in.

    `pack` refuses it while texts that have to say something are empty. Of a list of words, it has
    the first.

    Raises:
        InputError: the board asks for none.
    """
    if board.facts is None:
        asking = ", ".join(task for task, other in BOARDS.items() if other.facts)
        raise InputError(f"--task {board.task}: it asks for no metadata; expected one of {asking}")
    asked = board.facts.asked.items()
    return {n: kind[0] if isinstance(kind, list) else "" for n, kind in asked if kind != "optional"}


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata file.

    Raises:
        InputError: it is not a JSON object.
    """
    expected = f"{path}: expected a JSON object, as `raypipe leaderboard template` prints it"
    check_regular(path)
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{expected}; {error}") from None
    if not isinstance(body, dict):
        raise InputError(expected)
    return body


def check_metadata(
    board: Board, submission: str, metadata: Mapping[str, Any], earlier: Iterable[Path]
) -> list[Finding]:
    """The rules about the id, the metadata, the embargo and two submissions in 30 days.

    Args:
        board: the board with the rules.
        submission: the id, yyyymmdd-name.
        metadata: the content of the metadata file.
        earlier: folders with ID-metadata.json files of earlier submissions.
    """
    facts = does_not_apply("metadata", f"{board.task} asks for none")
    if board.facts is not None:
        facts = _fields(board.facts.asked, metadata)
    if not board.dated:
        rules = ("embargo", "two in 30 days")
        others = [does_not_apply(rule, f"{board.task} has no such rule") for rule in rules]
        return [check_tag(submission, board), facts, *others]
    day = _day(submission)
    return [
        _id(submission, day),
        facts,
        _embargo(metadata, day),
        _frequency(submission, day, metadata, earlier),
    ]


def _day(submission: str) -> date | None:
    match = re.fullmatch(r"([0-9]{4})([0-9]{2})([0-9]{2})-[A-Za-z0-9_.-]+", submission)
    try:
        day = date(*map(int, match.groups())) if match else None
        return day if day is not None and day.year < date.max.year else None
    except ValueError:
        return None


def check_tag(submission: str, board: Board) -> Finding:
    """Whether a submission's id can be the tag of its runs."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", submission):
        detail = f"expected letters, digits, hyphens, dots and underscores; found {submission!r}"
        return broken("id", detail)
    return tagged("id", submission, board)


def _id(submission: str, day: date | None) -> Finding:
    if day is None:
        return broken("id", f"expected yyyymmdd-name, such as 20261120-mine; found {submission!r}")
    return holds("id", submission)


def _fields(asked: Mapping[str, Kind], metadata: Mapping[str, Any]) -> Finding:
    required = [name for name, kind in asked.items() if kind != "optional"]
    given = {name: v for name in required if isinstance(v := metadata.get(name), str)}
    wrong = [name for name in required if name not in given]
    empty = [name for name, value in given.items() if value == "" and asked[name] == "text"]
    unknown = sorted(set(metadata) - set(asked))
    problems = []
    if wrong:
        problems.append(f"expected texts for {', '.join(wrong)}")
    if empty:
        problems.append(f"{', '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty")
    if unknown:
        problems.append(f"unknown keys {', '.join(unknown)}")
    for name, value in given.items():
        kind = asked[name]
        if isinstance(kind, list) and value not in kind:
            expected = " or ".join(map(repr, kind))
            problems.append(f"{name}: expected {expected}; found {value!r}")
        if kind == "date" and not _is_day(value):
            problems.append(f"{name}: expected a day as YYYY-MM-DD; found {value!r}")
    if problems:
        return broken("metadata", "; ".join(problems))
    return holds("metadata", next(iter(given.values()), ""))


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _embargo(metadata: Mapping[str, Any], day: date | None) -> Finding:
    value = metadata.get("embargo_until")
    if value is None:
        return does_not_apply("embargo", "none is requested")
    match = re.fullmatch(r"(\d{4})/(\d{2})/(\d{2})", value) if isinstance(value, str) else None
    try:
        until = date(*map(int, match.groups())) if match else None
    except ValueError:
        until = None
    if until is None:
        return broken("embargo", f"embargo_until: expected yyyy/mm/dd; found {value!r}")
    if day is None:
        return broken("embargo", "the id has no day to count from")
    last = _last_day(day, EMBARGO_MONTHS)
    if not day <= until <= last:
        return broken("embargo", f"embargo_until: expected {day} to {last}; found {until}")
    return holds("embargo", f"until {until}")


def _last_day(day: date, months: int) -> date:
    """The last day of a period of months that begins with this day.

    It is the day before the same day that many months later, as the board counts: nine months from
    2020/11/01 end with 2021/07/31. Where a month lacks that day, they end with the month.
    """
    year, month = divmod(day.month - 1 + months, 12)
    first = date(day.year + year, month + 1, 1)
    length = ((first + timedelta(days=31)).replace(day=1) - first).days
    return first + timedelta(days=min(day.day - 2, length - 1))


def _frequency(
    submission: str, day: date | None, metadata: Mapping[str, Any], earlier: Iterable[Path]
) -> Finding:
    rule = "two in 30 days"
    if day is None:
        return broken(rule, "the id has no day to count from")
    near: set[tuple[date, str]] = set()
    for folder in earlier:
        for path in sorted(folder.glob("*-metadata.json")):
            name = path.name.removesuffix("-metadata.json")
            other = _day(name)
            if name == submission or other is None or abs(other - day) >= timedelta(days=DAYS):
                continue
            if read_metadata(path).get("team") == metadata.get("team"):
                near.add((other, name))
    for first, _ in sorted({*near, (day, submission)}):
        window = [n for d, n in sorted(near) if first <= d < first + timedelta(days=DAYS)]
        if first <= day < first + timedelta(days=DAYS) and len(window) >= MOST:
            detail = f"the team has {', '.join(window)} in the {DAYS} days from {first}"
            return broken(rule, detail)
    return holds(rule, f"{len(near)} others of the team are near" if near else "no other is near")
