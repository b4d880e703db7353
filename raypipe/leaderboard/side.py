"""One side of a submission: its run, cut or filled, as the rows to write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.data.queries import read_queries
from raypipe.evaluation.exports import lowered
from raypipe.evaluation.run_files.runs import read_run
from raypipe.leaderboard.boards import Board
from raypipe.leaderboard.fill import Filled, fill
from raypipe.leaderboard.findings import Finding, does_not_apply, holds
from raypipe.leaderboard.lines import RunLines, of_table, read_run_lines
from raypipe.leaderboard.rules import check_lines
from raypipe.vocabulary import BreakTies

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


def filled_run(board: Board, side: RunSide) -> tuple[Filled, Scores | None, list[Finding]]:
    """The rankings to write, their scores if the board needs them, and what was cut or filled.

    The file's own order is checked first.
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
    named = [] if side.queries is None else [query for query, _ in read_queries(side.queries)]
    queries = list(dict.fromkeys([*named, *rankings]))
    depth = _depth(board, rankings)
    filled = fill(rankings, earlier, queries=queries, depth=depth)
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
