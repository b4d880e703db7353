"""Measures of a run by ir_measures; every provider sees the run's one order."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
from ir_measures.measures import SumAgg

from raypipe.errors import InputError, some
from raypipe.evaluation.names import by_gdeval, grades_of, parse_measures, problems_of
from raypipe.evaluation.run_files.columns import SHOWN, check_run, encode, repeats
from raypipe.evaluation.run_files.runs import NotInPartsError, read_parts, read_run
from raypipe.evaluation.ties import note_ties, ties_of
from raypipe.schema import MAX_GRADE
from raypipe.vocabulary import BreakTies

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

    def to_pandas(self) -> Any:
        """A DataFrame of pandas, if it is installed: query_id and a column for each measure."""
        queries = next(iter(self.per_query.values()), {})
        columns = {m: [values[query] for query in queries] for m, values in self.per_query.items()}
        return pa.table({"query_id": list(queries), **columns}).to_pandas()


def warn_of(measured: Mapping[str, Measured], where: str = "") -> None:
    """Log the queries that count 0 or are left out, and that nothing retrieved is judged.

    Messages that several runs share are one line, with the runs' names and ` on QUERYSET`.
    """
    names_by_line: dict[str, list[str]] = {}
    for name, run in measured.items():
        lines = [
            f"{_queries(queries)} of the {of} {'is' if len(queries) == 1 else 'are'} not in the "
            f"{other} and {verb[len(queries) > 1]}: {some(queries)}"
            for queries, of, other, verb in (
                (run.missing_queries, "qrels", "run", ("counts 0", "count 0")),
                (run.unjudged_queries, "run", "qrels", ("is left out", "are left out")),
            )
            if queries
        ]
        if not run.num_judged:
            lines.append(
                f"none of {run.num_retrieved} retrieved ids is judged: are the run and the qrels "
                "of the same passages, or of the same documents?"
            )
        for line in lines:
            names_by_line.setdefault(line, []).append(name)
    for line, names in names_by_line.items():
        logger.warning("%s%s: %s", ", ".join(names), where, line)


def _queries(queries: Sequence[str]) -> str:
    return "1 query" if len(queries) == 1 else f"{len(queries):,} queries"


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
    problems, relevance = [], qrels["relevance"].to_numpy()
    for row in np.flatnonzero(np.abs(relevance.astype(np.int64)) > MAX_GRADE)[:SHOWN].tolist():
        query, passage = (qrels[name][row] for name in ("query_id", "passage_id"))
        problems.append(
            f"qrels: query {query}, passage {passage}: grade {relevance[row]:,} is beyond "
            f"{MAX_GRADE:,}; divide the grades, or take the logarithm of counts such as clicks"
        )
    for group in repeats(encode(qrels["query_id"]), encode(qrels["passage_id"])):
        grades = relevance[group].tolist()
        if len(set(grades)) > 1:
            query, passage = (qrels[name][int(group[0])] for name in ("query_id", "passage_id"))
            shown = grades if len(grades) <= SHOWN else sorted({*grades})[:SHOWN]
            problems.append(f"qrels: query {query}, passage {passage}: grades {shown}; keep one")
    if problems:
        raise InputError(problems[:SHOWN])


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


def evaluate_file(
    path: Path,
    qrels: pa.Table,
    measures: Sequence[str],
    *,
    break_ties: BreakTies = "id",
    qrels_name: str = "qrels",
) -> Measured:
    """The values of the file's run, as `evaluate` returns them. A note on its ties is logged.

    A text file in which each query's lines stand together is never whole in memory; any other is.

    Args:
        path: the run.
        qrels: schema.QRELS.
        measures: see `evaluate`.
        break_ties: see `read_run`.
        qrels_name: what messages call the qrels, such as their file.

    Raises:
        InputError: a file that is not a run, or an error of `evaluate`.
    """
    names = (str(path), qrels_name)
    measuring, ties = Measuring(qrels, measures), []
    try:
        for part in read_parts(path, break_ties=break_ties):
            measuring.add(part)
            ties.append(ties_of(part))
    except NotInPartsError:
        run = read_run(path, break_ties=break_ties)
        note_ties(path, [ties_of(run)])
        return evaluate(run, qrels, measures, names=names)
    note_ties(path, ties)
    return measuring.result(names=names)
