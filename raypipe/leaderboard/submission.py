"""A submission: its runs cut or filled, checked completely, then written completely."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from raypipe.leaderboard.boards import Board
from raypipe.leaderboard.metadata import check_metadata, read_metadata
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
from raypipe.regular import check_folder
from raypipe.storage.files import appear, folder_beside, replace_file
from raypipe.vocabulary import BreakTies


@dataclass(frozen=True, slots=True)
class Filled:
    """The rankings to be written."""

    rankings: dict[str, list[str]]
    num_queries: int
    """Number of queries that got rows."""
    num_rows: int
    num_cut: int
    """Number of rows below the board's depth, which are left out."""


def fill(
    rankings: Mapping[str, Sequence[str]],
    earlier: Mapping[str, Sequence[str]],
    *,
    queries: Sequence[str],
    depth: int | None,
) -> Filled:
    """Each query's passages up to `depth`, followed by missing ones from the earlier run.

    Queries are in the order of `queries`; one that neither run has gets no rows.
    """
    filled: dict[str, list[str]] = {}
    num_queries = num_rows = num_cut = 0
    for query in queries:
        own = list(rankings.get(query, ()))
        kept = own[:depth]
        num_cut += len(own) - len(kept)
        before = len(kept)
        if depth is not None and before < depth:
            known = set(kept)
            more = [passage for passage in earlier.get(query, ()) if passage not in known]
            kept += more[: depth - before]
        num_queries += len(kept) > before
        num_rows += len(kept) - before
        if kept:
            filled[query] = kept
    return Filled(filled, num_queries, num_rows, num_cut)


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


def filled_run(
    board: Board, side: RunSide, queries: Sequence[str] | None
) -> tuple[Filled, Scores | None, list[Finding]]:
    """The rankings to write, their scores if the board needs them, and what was cut or filled.

    The file's own order is checked first. `queries` are the ids of the side's queries, if it has
    them.
    """
    lines = read_run_lines(side.run, break_ties=side.break_ties)
    own = check_lines(lines, board, fewer_rows=True)
    kept = [
        f for f in own if f.rule in ("file format", "ranks", "repeated passages", "passage ids")
    ]
    if lines.form == "trec":  # the scores decide, as in trec_eval; pack writes new ranks
        lines = _ranking_of(side.run, side.break_ties)
        kept = [f for f in kept if f.rule != "ranks"]
    noted = [f for f in kept if not f.ok or (f.rule == "file format" and not f.applies)]
    rankings = lines.rankings()
    before = None if side.fill is None else _ranking_of(side.fill, side.break_ties)
    earlier = before.rankings() if before is not None else {}
    named = list(dict.fromkeys([*(queries or ()), *rankings]))
    depth = _depth(board, rankings)
    filled = fill(rankings, earlier, queries=named, depth=depth)
    scores = _scores(filled, lines, before) if board.form == "trec" else None
    notes = [replace(f, rule=f"{side.run.name}: {f.rule}") for f in noted]
    if side.fill is None:
        notes.append(does_not_apply("filled", "no earlier run was named"))
    else:
        rows = f"{filled.num_rows:,} rows of {filled.num_queries:,} queries"
        notes.append(holds("filled", f"{rows} from {side.fill.name}"))
    if filled.num_cut:
        notes.append(holds("cut", f"{filled.num_cut:,} rows below rank {depth:,}"))
    return filled, scores, notes


def _scores(filled: Filled, own: RunLines, earlier: RunLines | None) -> Scores:
    """The score of every row in the run that it comes from."""
    found: dict[str, dict[str, float]] = {query: {} for query in filled.rankings}
    for run in (earlier, own):  # the run's own scores override the earlier run's
        if run is not None:
            scores = run.scores()
            for query, passages in run.rankings().items():
                if query in found:
                    found[query].update(zip(passages, scores[query], strict=True))
    return found


def _ranking_of(path: Path, break_ties: BreakTies) -> RunLines:
    """The run in the order that counts: for a TREC file, that of its scores, as in read_run."""
    lines = read_run_lines(path, break_ties=break_ties)
    return of_table(read_run(path, break_ties=break_ties), path) if lines.form == "trec" else lines


def _depth(board: Board, rankings: Mapping[str, Sequence[str]]) -> int | None:
    first = next((passages[0] for passages in rankings.values() if passages), "")
    return next((rows for pattern, rows in board.depths if pattern.fullmatch(first)), None)


def rows_to_write(filled: Filled, scores: Scores | None) -> pa.Table:
    """The rows to write, schema.RUN_FILE; scores strictly decrease; 1/rank if there are none."""
    queries = [query for query, passages in filled.rankings.items() for _ in passages]
    passages = [passage for found in filled.rankings.values() for passage in found]
    lengths = [len(found) for found in filled.rankings.values()]
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
    tables: dict[str, pa.Table] = {}
    measure: dict[str, float] = {}
    for name, side in sides.items():
        queries = None if side.queries is None else [q for q, _ in read_queries(side.queries)]
        filled, scores, notes = filled_run(board, side, queries)
        tables[name] = rows_to_write(filled, scores)
        lines = replace(of_table(tables[name], side.run), form=board.form, tags=(submission,))
        findings[name] = [
            *notes,
            *check_lines(lines, board, queries=queries, query_set=name, fewer_rows=fewer_rows),
            *_measured(board, side, filled, measure),
        ]
    refuse_broken(
        [replace(f, rule=f"{name}: {f.rule}") for name, found in findings.items() for f in found]
    )
    _write(board, folder, submission, tables, body if board.metadata else None)
    check = {
        "task": board.task,
        "id": submission,
        "measure": measure,
        "rules": {name: [f.to_json() for f in found] for name, found in findings.items()},
    }
    replace_file(out / "leaderboard" / "check.json", json.dumps(check, indent=1).encode() + b"\n")
    return Submission(folder / submission, findings, measure)


def _measured(
    board: Board, side: RunSide, filled: Filled, measure: dict[str, float]
) -> list[Finding]:
    rule = "measure"
    if board.measure is None:
        return [does_not_apply(rule, f"{board.task} has no script of its own")]
    if side.qrels is None:
        return [does_not_apply(rule, "no qrels were named")]
    qrels = read_qrels(side.qrels)
    value, num = board.measure.compute(filled.rankings, qrels)
    if not set(qrels["query_id"].to_pylist()) & set(filled.rankings):
        return [broken(rule, f"{side.qrels} judges no query of the run")]
    measure[board.measure.name] = value
    return [holds(rule, f"{board.measure.name}: {value!r} over {num:,} queries of the qrels")]


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
