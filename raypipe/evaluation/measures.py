"""Measures of a run by ir_measures; every provider sees the run's one order."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import ir_measures
import numpy as np
import pyarrow as pa
from ir_measures.measures import SumAgg

from raypipe.errors import InputError
from raypipe.evaluation.names import parse_measures
from raypipe.evaluation.run_files.columns import SHOWN, check_run, encode, repeats

logger = logging.getLogger(__name__)

QUERIES_AT_ONCE = 256
"""Queries given to ir_measures at once: at depth 1000, about 60 MB of dictionaries."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The measures of one run against one set of qrels."""

    per_query: dict[str, dict[str, float]] = field(repr=False)
    """Measure -> query id -> value, for every query of the qrels in their order."""
    mean: dict[str, float]
    """Measure -> mean over the queries of the qrels; the sum for counts such as NumRel."""
    num_topics: dict[str, int]
    """Measure -> the number of queries that the mean is over."""
    missing_queries: tuple[str, ...] = field(repr=False)
    """Queries of the qrels without a line in the run; each counts 0."""
    unjudged_queries: tuple[str, ...] = field(repr=False)
    """Queries of the run that are not in the qrels; they are not counted."""
    num_retrieved: int
    """Lines of the run for the queries of the qrels."""
    num_judged: int
    """Number of these lines that the qrels judge."""


def evaluate(
    run: pa.Table, qrels: pa.Table, measures: Sequence[str], *, warn: bool = True
) -> Measured:
    """The run's measures, per query and averaged.

    Only the final rank decides the order. ir_measures gets scores that decrease by one per rank,
    since its providers break ties differently (trec_eval by descending passage id, the MS MARCO
    script's adapter by ascending).

    Args:
        run: `schema.RUN_FILE`, each query's lines together in rank order.
        qrels: `schema.QRELS`.
        measures: names in the notation of ir_measures, "nDCG@10", "RR(rel=2)@10"; the result uses
            them as given.
        warn: log the queries that count 0 or are left out; once is enough for each query set.

    Raises:
        InputError: an unknown measure, invalid run or qrels, or a run without any query of the
            qrels.
    """
    parsed = parse_measures(measures)
    check_run(run)
    _check_qrels(qrels)
    judgements = _by_query(qrels, "relevance")
    spans = _spans(run)
    missing = tuple(query for query in judgements if query not in spans)
    if len(missing) == len(judgements):
        raise InputError(
            f"run and qrels share no query (run: {_some(spans)}; qrels: {_some(judgements)}); "
            "expected the query ids of one query set"
        )
    per_query: dict[str, dict[str, float]] = {
        name: dict.fromkeys(judgements, 0.0) for name in parsed
    }
    num_retrieved = num_judged = 0
    for queries in _chunks(judgements):
        rankings = {query: _ranking(run, spans[query]) for query in queries if query in spans}
        chunk = {query: judgements[query] for query in queries}
        for name, query, value in _values(parsed, chunk, rankings):
            per_query[name][query] = value
        num_retrieved += sum(map(len, rankings.values()))
        num_judged += sum(len(rankings[query].keys() & chunk[query]) for query in rankings)
    measured = Measured(
        per_query=per_query,
        mean={name: _aggregate(parsed[name], per_query[name]) for name in parsed},
        num_topics={name: len(judgements) for name in parsed},
        missing_queries=missing,
        unjudged_queries=tuple(query for query in spans if query not in judgements),
        num_retrieved=num_retrieved,
        num_judged=num_judged,
    )
    if warn:
        _warn(measured)
    return measured


def _check_qrels(qrels: pa.Table) -> None:
    if not len(qrels):
        raise InputError("qrels: no judgements; expected query, passage and relevance")
    problems = []
    for group in repeats(encode(qrels["query_id"]), encode(qrels["passage_id"]))[:SHOWN]:
        grades = qrels["relevance"].take(pa.array(group)).to_pylist()
        if len(set(grades)) > 1:
            query, passage = (qrels[name][int(group[0])] for name in ("query_id", "passage_id"))
            problems.append(f"qrels: query {query}, passage {passage}: grades {grades}; keep one")
    if problems:
        raise InputError(problems)


def _by_query(qrels: pa.Table, column: str) -> dict[str, dict[str, int]]:
    """Query id -> passage id -> grade, queries in order of first appearance."""
    found: dict[str, dict[str, int]] = {}
    columns = (qrels["query_id"], qrels["passage_id"], qrels[column])
    for query, passage, grade in zip(*(c.to_pylist() for c in columns), strict=True):
        found.setdefault(query, {})[passage] = grade
    return found


def _spans(run: pa.Table) -> dict[str, tuple[int, int]]:
    """Query id -> first row and number of rows."""
    queries = encode(run["query_id"])
    starts = np.flatnonzero(np.diff(queries.codes, prepend=-1))
    lengths = np.diff(np.append(starts, len(queries.codes)))
    spans = zip(starts.tolist(), lengths.tolist(), strict=True)
    return dict(zip(queries.names.to_pylist(), spans, strict=True))


def _ranking(run: pa.Table, span: tuple[int, int]) -> dict[str, float]:
    """Passage id -> a score that decreases by one per rank, exact in float32."""
    passages = run["passage_id"].slice(*span).to_pylist()
    return dict(zip(passages, map(float, range(len(passages), 0, -1)), strict=True))


def _chunks(queries: Mapping[str, object]) -> Iterator[list[str]]:
    names = list(queries)
    for start in range(0, len(names), QUERIES_AT_ONCE):
        yield names[start : start + QUERIES_AT_ONCE]


def _values(
    parsed: Mapping[str, ir_measures.Measure],
    judgements: Mapping[str, Mapping[str, int]],
    rankings: Mapping[str, Mapping[str, float]],
) -> Iterator[tuple[str, str, float]]:
    """(measure as given, query, value) for each value that ir_measures reports."""
    given: dict[ir_measures.Measure, list[str]] = {}
    for name, measure in parsed.items():
        given.setdefault(measure, []).append(name)
    for each in ir_measures.iter_calc(list(given), judgements, rankings):
        for name in given[each.measure]:
            yield name, each.query_id, float(each.value)


def _aggregate(measure: ir_measures.Measure, values: Mapping[str, float]) -> float:
    """The mean or sum, exactly rounded, so that it does not depend on the order of the queries."""
    total = math.fsum(values.values())
    return total if isinstance(measure.aggregator(), SumAgg) else total / len(values)


def _warn(measured: Measured) -> None:
    missing, unjudged = measured.missing_queries, measured.unjudged_queries
    if missing:
        logger.warning(
            "%d queries of the qrels are not in the run and count 0: %s",
            len(missing),
            _some(missing),
        )
    if unjudged:
        logger.warning(
            "%d queries of the run are not in the qrels and are left out: %s",
            len(unjudged),
            _some(unjudged),
        )
    if not measured.num_judged:
        logger.warning(
            "none of %d retrieved passages is judged: are the passage ids of the run those of the "
            "qrels?",
            measured.num_retrieved,
        )


def _some(names: Mapping[str, object] | Sequence[str]) -> str:
    shown = list(names)[:SHOWN]
    return ", ".join(shown) + (", ..." if len(names) > SHOWN else "")
