"""The effect of a run's score ties: its measures under every order of tied passages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.evaluation.exports import Float32, lowered, steps_below
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.names import parse_measures
from raypipe.evaluation.run_files.columns import Codes, decode, encode, places
from raypipe.evaluation.run_files.lines import read_lines, sniff
from raypipe.evaluation.run_files.parquet import columns_found, is_parquet
from raypipe.evaluation.run_files.runs import read_run

Int64 = NDArray[np.int64]
ORDERS = ("written", "trec_eval", "msmarco", "best", "worst")
SORTABLE = ("nDCG", "AP", "RR", "R", "P", "Success", "SetP", "SetR")
"""Measures that never fall when a more relevant passage moves up: sorting each tie by descending or
ascending grade gives their largest and smallest values."""


@dataclass(frozen=True, slots=True)
class Ties:
    """One run's ties."""

    scored: bool
    """False for a file with only ranks, which has no ties."""
    num_queries: int
    """Number of queries with a tie."""
    num_rows: int
    """Number of lines that share their score with another line of the query, before lowering."""
    mixed: int
    """Number of ties between passages of different grades; only those can change a measure."""
    means: dict[str, dict[str, float]]
    """Order -> measure -> mean; best and worst only for the measures for which they are proved."""
    warning: str
    """Why the ties may come from low precision; otherwise empty."""
    num_lowered: int = 0
    """Number of lines one float32 step below the line above: ties as written by raypipe."""
    tail_from: int | None = None
    """From this rank on all lines are such lines, and none is counted: see
    `raised`."""
    stored: bool = False
    """Whether the ties are those of a file's true scores, as its store has them."""
    by_id: bool = False
    """Whether `read_run` has to break them, by passage id unless it is told otherwise: the file has
    equal scores, and no ranks that order it."""


@dataclass(frozen=True)
class _Scored:
    queries: Codes
    passages: Codes
    scores: NDArray[np.float32]
    rank: NDArray[np.float64]
    """The order of the file."""
    by_rank: bool = False
    """Whether the ties are of neighbours by rank: of true scores, which need not decrease."""
    ordered: bool = True
    """Whether the file itself orders equal scores."""


def tie_report(
    source: Path | pa.Table,
    qrels: pa.Table,
    measures: Sequence[str],
    *,
    stored: pa.Table | None = None,
) -> Ties:
    """The ties of a run file or of a run (schema.RUN_FILE), and each measure under five orders.

    The orders are: written, by the file's rank or otherwise its lines; trec_eval, larger passage id
    first, as strings; msmarco, smaller passage id first (ir_measures' provider of the MS MARCO
    script); best and worst, by grade. A passage without a judgement has grade 0, and a negative
    grade counts as 0. In a TREC file with strictly decreasing scores, lines one float32 step apart
    count as lowered ties. Every tool reads such a file in the order written; the other orders apply
    to the original ties.

    A Parquet run has the true scores, and so has the store of a file (`stored`, schema.RUN in the
    order of its lines; ignored if the file is not what raypipe writes of it). Where several stages
    scored the rows of a query, only neighbours with the same score, of one stage, are tied.

    Raises:
        InputError: a file that is not a run.
    """
    run = _read(source)
    if run is None:
        return Ties(False, 0, 0, 0, {}, "")
    found = Raised(run.scores, 0, None)
    true = run.scores
    from_store = stored is not None and written_from(stored, run.queries.codes, run.scores)
    if stored is not None and from_store:
        true = stored["score"].to_numpy()
        stages = encode(stored["scored_by"]).codes
        run = replace(run, scores=steps(run.queries.codes, run.rank, true, stages))
    elif run.by_rank:
        one = np.zeros(len(true), np.int32)
        run = replace(run, scores=steps(run.queries.codes, run.rank, true, one))
    else:
        found = raised(run.queries.codes, run.scores)
        run = replace(run, scores=found.scores)
        true = run.scores
    grades = _grades(run, qrels)
    query_codes = run.queries.codes
    by_score = np.lexsort((-run.scores, query_codes))
    same = _same_as_before(query_codes[by_score], run.scores[by_score])
    tied = np.zeros(len(by_score), bool)
    tied[by_score] = same | np.append(same[1:], False)
    block = np.cumsum(~same, dtype=np.int64)
    mixed = _num_mixed(block, grades[by_score])
    num_queries = len(np.unique(query_codes[tied]))
    means = _means(run, grades, qrels, measures, tied) if tied.any() else {}
    warning = _precision(true) if mixed else ""
    return Ties(
        scored=True,
        num_queries=num_queries,
        num_rows=int(tied.sum()),
        mixed=mixed,
        means=means,
        warning=warning,
        num_lowered=found.num_lowered,
        tail_from=found.tail_from,
        stored=from_store,
        by_id=not run.ordered and not found.num_lowered and not from_store,
    )


def _read(path: Path | pa.Table) -> _Scored | None:
    if not isinstance(path, Path):
        return _of_table(path, ordered=True)
    form = "parquet" if is_parquet(path) else sniff(path)
    if form == "parquet":
        found = columns_found(path)
        if "score" not in found:
            return None
        return _of_table(read_run(path, break_ties="rank"), ordered="rank" in found)
    lines = read_lines(path, form)
    if lines.score is None:
        return None
    rank = np.arange(len(lines.score), dtype=np.float64)
    if lines.rank is not None and np.isfinite(lines.rank).all():
        rank = lines.rank.astype(np.float64)
    return _Scored(lines.queries, lines.passages, lines.score, rank, ordered=False)


def _of_table(run: pa.Table, *, ordered: bool) -> _Scored:
    queries, passages = encode(run["query_id"]), encode(run["passage_id"])
    rank, score = run["rank"].to_numpy().astype(np.float64), run["score"].to_numpy()
    return _Scored(queries, passages, score, rank, by_rank=True, ordered=ordered)


def _grades(run: _Scored, qrels: pa.Table) -> NDArray[np.int32]:
    """The grade of each line, int32 [N]; 0 of a passage without a judgement, or with a negative."""
    width = len(run.passages.names)
    queries = pc.index_in(qrels["query_id"], value_set=run.queries.names).cast(pa.int64())
    passages = pc.index_in(qrels["passage_id"], value_set=run.passages.names).cast(pa.int64())
    judged = pc.add(pc.multiply(queries, width), passages).combine_chunks()
    keys = pa.array(run.queries.codes.astype(np.int64) * width + run.passages.codes)
    grades = qrels["relevance"].take(pc.index_in(keys, value_set=judged))
    found: NDArray[np.int32] = np.maximum(grades.fill_null(0).to_numpy(), 0)
    return found


def _same_as_before(queries: NDArray[np.int32], scores: NDArray[np.float32]) -> NDArray[np.bool_]:
    same = np.zeros(len(queries), bool)
    same[1:] = (queries[1:] == queries[:-1]) & (scores[1:] == scores[:-1])
    return same


def _num_mixed(block: Int64, grades: NDArray[np.int32]) -> int:
    starts = np.flatnonzero(np.concatenate([[True], block[1:] != block[:-1]]))
    return int((np.maximum.reduceat(grades, starts) != np.minimum.reduceat(grades, starts)).sum())


def _means(
    run: _Scored,
    grades: NDArray[np.int32],
    qrels: pa.Table,
    measures: Sequence[str],
    tied: NDArray[np.bool_],
) -> dict[str, dict[str, float]]:
    """The means under every order; queries without ties are measured only once."""
    names = pc.sort_indices(run.passages.names).to_numpy()
    place = np.empty(len(names), np.int64)
    place[names] = np.arange(len(names))
    by_id = place[run.passages.codes]
    keys: dict[str, NDArray[np.generic]] = {"written": run.rank}
    keys |= {"trec_eval": -by_id, "msmarco": by_id, "best": -grades, "worst": grades}
    with_ties = np.zeros(len(run.queries.names), bool)
    with_ties[run.queries.codes[tied]] = True
    kept = np.flatnonzero(with_ties[run.queries.codes])
    some = qrels.filter(pc.is_in(qrels["query_id"], run.queries.names.filter(pa.array(with_ties))))
    whole = evaluate(
        _table(run, np.arange(len(run.rank)), keys["written"]), qrels, measures, warn=False
    )
    if not some.num_rows:
        return {order: dict(whole.mean) for order in ORDERS}
    found = {}
    for order in ORDERS:
        changed = evaluate(_table(run, kept, keys[order]), some, measures, warn=False)
        wanted = [m for m in measures if order not in ("best", "worst") or is_sortable(m)]
        found[order] = {m: _mean(whole.per_query[m] | changed.per_query[m]) for m in wanted}
    return found


def _mean(values: dict[str, float]) -> float:
    return sum(values.values()) / len(values)


def is_sortable(measure: str) -> bool:
    """Whether no value of the measure falls when a passage of higher grade moves up."""
    (parsed,) = parse_measures([measure]).values()
    return parsed.NAME in SORTABLE and "gains" not in parsed.params


def _table(run: _Scored, lines: Int64, key: NDArray[np.generic]) -> pa.Table:
    """The lines as a run (schema.RUN_FILE), by score, then key; by key alone for `written`."""
    queries, scores = run.queries.codes[lines], run.scores[lines]
    if key is run.rank:
        order = np.lexsort((key[lines], queries))
    else:
        order = np.lexsort((key[lines], -scores, queries))
    chosen = lines[order]
    rank = places(run.queries.codes[chosen]).astype(np.int32)
    columns = [decode(run.queries, chosen), decode(run.passages, chosen), rank, 1 / rank]
    return pa.table([*columns[:3], columns[3].astype(np.float32)], schema=schema.RUN_FILE)


def _precision(scores: NDArray[np.float32]) -> str:
    """A remark if all scores are whole or have few bits or few decimals; otherwise ""."""
    largest = float(np.abs(scores).max())
    if (np.rint(scores) == scores).all():
        return "every score is a whole number: such scores tie often, in any precision"
    with np.errstate(over="ignore"):
        if (scores.astype(np.float16).astype(np.float32) == scores).all():
            return "every score is an fp16 number: half precision made these ties"
    if not (scores.view(np.uint32) & 0xFFFF).any():
        return "every score is a bf16 number: low precision made these ties"
    wide = scores.astype(np.float64)
    for decimals in range(7):
        if np.spacing(np.float32(largest)) * 10 > 10.0**-decimals:
            break  # float32 itself holds no more decimals
        if (np.round(wide, decimals).astype(np.float32) == scores).all():
            return f"scores have at most {decimals} decimals: printing may have made these ties"
    return ""


@dataclass(frozen=True, slots=True)
class Raised:
    """A run's scores before ties were lowered, as far as the file shows them."""

    scores: Float32
    """float32 [N], in the order of the lines."""
    num_lowered: int
    """Lines one float32 step below the line above, counted as tied with it."""
    tail_from: int | None
    """The rank from which every line of every query is such a line: rows that a reranker left in
    place."""


def raised(queries: NDArray[np.int32], scores: Float32) -> Raised:
    """The scores, with each chain of single float32 steps raised to its first line's score.

    `write_trec` lowers a tie by one step per line, so that no two scores are equal. So a file with
    equal scores comes from another tool and is not changed. Rows below a reranker's depth are
    lowered too, whatever their scores were. If all lines from one rank on are single steps, in two
    or more queries, real ties cannot be recognised among them, and these lines are left unchanged.

    Args:
        queries: the query of each line, any order.
        scores: float32 [N].
    """
    order = np.lexsort((-scores, queries))
    codes, sorted_scores = queries[order], scores[order]
    steps = steps_below(sorted_scores)
    steps[1:][codes[1:] != codes[:-1]] = -1
    if not len(steps) or (steps == 0).any():
        return Raised(scores, 0, None)
    chained = steps == 1
    rank = places(codes)
    head = int(rank[~chained].max())
    rows = np.bincount(codes)
    tail_from = head + 1 if head > 1 and (rows > head).sum() > 1 else None
    if tail_from is not None:
        chained &= rank < tail_from
    first = np.maximum.accumulate(np.where(chained, 0, np.arange(len(chained))))
    found = np.empty_like(scores)
    found[order] = sorted_scores[first]
    return Raised(found, int(chained.sum()), tail_from)


def written_from(stored: pa.Table, queries: NDArray[np.int32], scores: Float32) -> bool:
    """Whether a file's lines are those of the stored run (schema.RUN), its scores lowered.

    Args:
        stored: the run as its store has it.
        queries: the query of each line of the file, in its order.
        scores: float32 [N], as the file has them.
    """
    if len(stored) != len(scores):
        return False
    groups = stored["query_row"].to_numpy()
    same = np.array_equal(np.diff(groups) != 0, np.diff(queries) != 0)
    return same and np.array_equal(lowered(stored["score"].to_numpy(), groups), scores)


def steps(
    queries: NDArray[np.int32],
    rank: NDArray[np.float64],
    scores: Float32,
    stages: NDArray[np.int32],
) -> Float32:
    """Scores that are equal where lines are tied: -1 for a query's first ones, then -2, ..., [N].

    Lines are tied if they follow each other by rank with the same true score of the same stage: the
    scores of a reranker and of the tail below it are never compared.
    """
    order = np.lexsort((rank, queries))
    codes, sorted_scores, by = queries[order], scores[order], stages[order]
    begins = np.ones(len(order), bool)
    begins[1:] = codes[1:] != codes[:-1]
    lower = begins.copy()
    lower[1:] |= (sorted_scores[1:] != sorted_scores[:-1]) | (by[1:] != by[:-1])
    number = np.cumsum(lower)
    first = np.maximum.accumulate(np.where(begins, number, 0))
    found = np.empty(len(order), np.float32)
    found[order] = first - number - 1
    return found
