"""A submission: its id, metadata and runs, checked completely, then written completely."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from raypipe.leaderboard.boards import BOARDS, Board
from raypipe.leaderboard.rules import (
    Finding,
    RunLines,
    broken,
    check_lines,
    does_not_apply,
    holds,
    of_table,
    read_run_lines,
    refuse_broken,
)
from raypipe.regular import check_folder, check_regular
from raypipe.storage.files import appear, folder_beside, replace_file
from raypipe.vocabulary import BreakTies

FIELDS = ("team", "model_description", "paper", "code", "type")
TYPES = ("full ranking", "reranking")
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
    qrels: Path | None = None
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
    """Scores of those rows; None if the board needs none."""
    measure: float | None
    """Value of the measure that the board's script computes; None if it was not computed."""


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
    findings = check(lines, fewer_rows=fewer_rows, break_ties=side.break_ties)
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
    measured, measure = _measured(board, side, filled)
    return Verdict([*findings, *measured], filled, scores, measure)


FILLED_RULES = ("passage ids", "query ids", "rows", "query set")
"""The rules that an earlier run's rows count for."""


def filled_run(
    board: Board, side: RunSide, lines: RunLines, queries: Sequence[str] | None
) -> tuple[Filled, Scores | None]:
    """The rankings to write, and their scores if the board needs them.

    `queries` are the ids of the side's queries, if it has them.
    """
    if lines.form == "trec":  # the scores decide, as in trec_eval
        lines = _read_ranking(side.run, board, side.break_ties)
    rankings = lines.rankings()
    before = None if side.fill is None else _read_ranking(side.fill, board, side.break_ties)
    earlier = before.rankings() if before is not None else {}
    named = list(dict.fromkeys([*(queries or ()), *rankings]))
    filled = fill(rankings, earlier, queries=named, depth=_depth(board, rankings))
    return filled, _scores(filled, lines, before) if board.form == "trec" else None


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
    return next((rows for pattern, rows in board.depths if pattern.fullmatch(first)), None)


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
    """The measure that the board's script will compute on dev."""


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

    They are out/leaderboard/submissions/ID/{dev,eval}.txt.bz2 (for a TREC task .trec),
    submissions/ID-metadata.json and leaderboard/check.json.

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
    refuse_broken(
        [replace(f, rule=f"{name}: {f.rule}") for name, each in findings.items() for f in each]
    )
    tables, measure = {}, {}
    for name, of_side in verdicts.items():
        assert of_side.filled is not None
        tables[name] = rows_to_write(of_side.filled, of_side.scores)
        if of_side.measure is not None and board.measure is not None:
            measure[board.measure.name] = of_side.measure
    _write(board, folder, submission, tables, body if board.metadata else None)
    check = {
        "task": board.task,
        "id": submission,
        "measure": measure,
        "rules": {name: [f.to_json() for f in each] for name, each in findings.items()},
    }
    replace_file(out / "leaderboard" / "check.json", json.dumps(check, indent=1).encode() + b"\n")
    return Submission(folder / submission, findings, measure)


def _measured(
    board: Board, side: RunSide, filled: Filled | None
) -> tuple[list[Finding], float | None]:
    """The finding about the measure, and its value; none of a run with a broken rule."""
    rule = "measure"
    if board.measure is None:
        return [does_not_apply(rule, f"{board.task} has no script of its own")], None
    if side.qrels is None:
        return [does_not_apply(rule, "no qrels were named")], None
    if filled is None:
        return [], None
    qrels = read_qrels(side.qrels)
    if not set(qrels["query_id"].to_pylist()) & set(filled.rankings):
        return [broken(rule, f"{side.qrels} judges no query of the run")], None
    value, num = board.measure.compute(filled.rankings, qrels)
    detail = f"{board.measure.name}: {value!r} over {num:,} queries of the qrels"
    return [holds(rule, detail)], value


def _write(
    board: Board,
    folder: Path,
    submission: str,
    tables: Mapping[str, pa.Table],
    metadata: Mapping[str, Any] | None,
) -> None:
    """Write everything under another name first; the folder of the id appears complete."""
    target, metadata_file = folder / submission, folder / f"{submission}-metadata.json"
    with folder_beside(target) as beside:
        for name, table in tables.items():
            if board.form == "trec":
                write_trec(table, beside / f"{name}.trec", tag=submission)
            else:
                write_msmarco(table, beside / f"{name}.txt.bz2")
        text = json.dumps(dict(metadata or {}), indent=2, ensure_ascii=False) + "\n"
        if (
            metadata_file.exists()
            and metadata is not None
            and metadata_file.read_bytes() != text.encode()
        ):
            raise InputError(
                f"{metadata_file}: it exists with other metadata; give a new id, or remove it"
            )
        if target.exists():
            _refuse_other_bytes(target, beside)
        else:
            appear(beside, target)
        if metadata is not None:
            replace_file(metadata_file, text.encode())


def _refuse_other_bytes(standing: Path, new: Path) -> None:
    before = {path.name: path.read_bytes() for path in standing.iterdir()}
    after = {path.name: path.read_bytes() for path in new.iterdir()}
    if before != after:
        raise InputError(
            f"{standing}: a submission of this id exists with other runs; give a new id, or "
            "remove that folder if it was never submitted"
        )


def metadata_template(board: Board) -> dict[str, str]:
    """The metadata of a submission with every field a board asks for, to be filled in.

    `pack` refuses it while team and model_description are empty. The type is one of two.

    Raises:
        InputError: the board asks for none.
    """
    if not board.metadata:
        asking = ", ".join(task for task, other in BOARDS.items() if other.metadata)
        raise InputError(f"--task {board.task}: it asks for no metadata; expected one of {asking}")
    return {name: "" for name in FIELDS} | {"type": TYPES[0]}


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata file.

    Raises:
        InputError: it is not a JSON object.
    """
    check_regular(path)
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: expected a JSON object with {', '.join(FIELDS)}; {error}"
        ) from None
    if not isinstance(body, dict):
        raise InputError(f"{path}: expected a JSON object with {', '.join(FIELDS)}")
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
    rules = ("id", "metadata", "embargo", "two in 30 days")
    if not board.metadata:
        others = [does_not_apply(rule, f"{board.task} has no such rule") for rule in rules[1:]]
        return [_tag(submission), *others]
    day = _day(submission)
    return [
        _id(submission, day),
        _fields(metadata),
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


def _tag(submission: str) -> Finding:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", submission):
        detail = f"expected letters, digits, hyphens, dots and underscores; found {submission!r}"
        return broken("id", detail)
    return holds("id", submission)


def _id(submission: str, day: date | None) -> Finding:
    if day is None:
        return broken("id", f"expected yyyymmdd-name, such as 20261120-mine; found {submission!r}")
    return holds("id", submission)


def _fields(metadata: Mapping[str, Any]) -> Finding:
    wrong = [name for name in FIELDS if not isinstance(metadata.get(name), str)]
    empty = [name for name in ("team", "model_description") if metadata.get(name) == ""]
    unknown = sorted(set(metadata) - {*FIELDS, "embargo_until"})
    problems = []
    if wrong:
        problems.append(f"expected texts for {', '.join(wrong)}")
    if empty:
        problems.append(f"{', '.join(empty)} is empty")
    if unknown:
        problems.append(f"unknown keys {', '.join(unknown)}")
    if "type" not in wrong and metadata["type"] not in TYPES:
        problems.append(
            f"type: expected {' or '.join(map(repr, TYPES))}; found {metadata['type']!r}"
        )
    if problems:
        return broken("metadata", "; ".join(problems))
    return holds("metadata", metadata["team"])


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
