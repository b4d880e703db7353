"""Measures of a run by ir_measures; every provider sees the run's one order."""

import math
from collections.abc import Iterator, Mapping, Sequence

import ir_measures
import numpy as np
import pyarrow as pa
from ir_measures.measures import SumAgg

from raypipe.errors import InputError
from raypipe.evaluation.measured import Measured, some, warn_of
from raypipe.evaluation.names import by_gdeval, parse_measures, problems_of
from raypipe.evaluation.run_files.columns import SHOWN, check_run, encode, repeats

QUERIES_AT_ONCE = 256
"""Queries given to ir_measures at once: at depth 1000, about 60 MB of dictionaries."""


def evaluate(
    run: pa.Table,
    qrels: pa.Table,
    measures: Sequence[str],
    *,
    warn: bool = True,
    of_set: bool = False,
    names: tuple[str, str] = ("run", "qrels"),
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
        of_set: the run and the judgements are known to be of one query set; a run in which no
            judged query has a passage then counts 0.
        names: what messages call the run and the qrels, such as their files.

    Raises:
        InputError: an unknown measure, invalid run or qrels, or, but for `of_set`, a run without
            any query of the qrels.
    """
    measuring = Measuring(qrels, measures)
    measuring.add(run)
    return measuring.result(warn=warn, of_set=of_set, names=names)


class Measuring:
    """Measures a run that arrives in parts of whole queries; see `evaluate`."""

    def __init__(self, qrels: pa.Table, measures: Sequence[str]) -> None:
        """Nothing is measured yet; every query of the qrels counts 0.

        Raises:
            InputError: an unknown measure, invalid qrels, or grades that a measure does not take.
        """
        self._parsed = parse_measures(measures)
        _check_qrels(qrels)
        self._judgements = grades_of(qrels)
        problems = problems_of(self._parsed, self._judgements)
        if problems:
            raise InputError(problems)
        self._per_query = {name: dict.fromkeys(self._judgements, 0.0) for name in self._parsed}
        self._in_run: dict[str, None] = {}
        self._num_retrieved = self._num_judged = 0

    def add(self, run: pa.Table) -> None:
        """Measure these queries, of which no other part has a line.

        Raises:
            InputError: an invalid run.
        """
        check_run(run)
        spans = _spans(run)
        self._in_run.update(dict.fromkeys(spans))
        for queries in _chunks([query for query in self._judgements if query in spans]):
            rankings = {query: _ranking(run, spans[query]) for query in queries}
            judged = {query: self._judgements[query] for query in queries}
            for name, query, value in _values(self._parsed, judged, rankings):
                self._per_query[name][query] = value
            self._num_retrieved += sum(map(len, rankings.values()))
            self._num_judged += sum(len(rankings[query].keys() & judged[query]) for query in judged)

    def result(
        self,
        *,
        warn: bool = True,
        of_set: bool = False,
        names: tuple[str, str] = ("run", "qrels"),
    ) -> Measured:
        """The measures of all parts together; see `evaluate`.

        Raises:
            InputError: no part has a query of the qrels, and `of_set` does not allow it.
        """
        missing = tuple(query for query in self._judgements if query not in self._in_run)
        if len(missing) == len(self._judgements) and not of_set:
            raise InputError(
                f"{names[0]} and {names[1]} share no query (run: {some(self._in_run)}; "
                f"qrels: {some(self._judgements)}); expected the query ids of one query set"
            )
        per_query = self._per_query
        measured = Measured(
            per_query=per_query,
            mean={name: _aggregate(self._parsed[name], per_query[name]) for name in per_query},
            num_topics={name: len(self._judgements) for name in per_query},
            missing_queries=missing,
            unjudged_queries=tuple(q for q in self._in_run if q not in self._judgements),
            num_retrieved=self._num_retrieved,
            num_judged=self._num_judged,
        )
        if warn:
            warn_of({names[0]: measured})
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


def check_grades(qrels: pa.Table, measures: Sequence[str]) -> None:
    """Nothing, if every measure takes the grades; see `problems_of`.

    Raises:
        InputError: an unknown measure, or grades that a measure does not take.
    """
    parsed = parse_measures(measures)
    if any(map(by_gdeval, parsed.values())) and (problems := problems_of(parsed, grades_of(qrels))):
        raise InputError(problems)


def grades_of(qrels: pa.Table) -> dict[str, dict[str, int]]:
    """Query id -> passage id -> grade, from schema.QRELS; queries as they first appear."""
    found: dict[str, dict[str, int]] = {}
    columns = (qrels[name].to_pylist() for name in ("query_id", "passage_id", "relevance"))
    for query, passage, grade in zip(*columns, strict=True):
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


def _chunks(names: list[str]) -> Iterator[list[str]]:
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
    own = [measure for measure in given if by_gdeval(measure)]
    others = [measure for measure in given if not by_gdeval(measure)]
    if others:
        for each in ir_measures.iter_calc(others, judgements, rankings):
            for name in given[each.measure]:
                yield name, each.query_id, float(each.value)
    if own:
        numbers = {query: str(number) for number, query in enumerate(judgements)}
        names = {number: query for query, number in numbers.items()}
        qrels = {numbers[query]: grades for query, grades in judgements.items()}
        run = {numbers[query]: scores for query, scores in rankings.items()}
        for each in ir_measures.iter_calc(own, qrels, run):
            for name in given[each.measure]:
                yield name, names[each.query_id], float(each.value)


def _aggregate(measure: ir_measures.Measure, values: Mapping[str, float]) -> float:
    """The mean or sum, exactly rounded, so that it does not depend on the order of the queries."""
    total = math.fsum(values.values())
    return total if isinstance(measure.aggregator(), SumAgg) else total / len(values)
