"""Compares several runs with one, measure by measure."""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe.errors import InputError
from raypipe.evaluation.measures import Measured, evaluate, warn_of
from raypipe.evaluation.names import counts_in, cutoffs_in, grades_of
from raypipe.evaluation.significance import (
    SEED,
    Difference,
    differences,
    holm,
    randomisation_tests,
    t_test,
)

DEFAULT_CUTOFF = 10


@dataclass(frozen=True, slots=True)
class Comparison:
    """One run compared with the baseline by one measure."""

    run: str
    measure: str
    mean: float
    n: int
    """Number of queries of the qrels; a query missing from the run counts 0."""
    unjudged: float
    """Share of the first k rows that have no judgement; k is the measure's cutoff, or 10. Not a
    number where only measured values are compared."""
    difference: Difference | None
    """With its 95% interval. This and the next five are None for the baseline itself."""
    wins: int | None
    ties: int | None
    losses: int | None
    p_t: float | None
    """p of the paired t test."""
    p_randomisation: float | None
    p_holm: float | None
    """p of the randomisation test, corrected over all runs and measures compared here."""


@dataclass(frozen=True, slots=True)
class Compared:
    """All comparisons, and the values that they were computed from."""

    rows: list[Comparison]
    """Comparisons, ordered by measure, then by run as they were given."""
    per_query: dict[str, Measured] = field(repr=False)
    family: int
    """Number of comparisons in Holm's correction."""

    def to_pandas(self) -> Any:
        """The rows as a DataFrame of pandas, in their order, if pandas is installed.

        A column for each field of `Comparison`; in the place of the difference its mean
        (`difference`) and its 95% interval (`low`, `high`). The baseline's are missing values.
        """
        lines = [_line(row) for row in self.rows]
        return pa.Table.from_pylist(lines).to_pandas()


def _line(row: Comparison) -> dict[str, Any]:
    """The row with the mean difference and its interval as columns of their own."""
    line: dict[str, Any] = {}
    for each in fields(row):
        line[each.name] = getattr(row, each.name)
        if each.name == "difference":
            names = {"difference": "mean", "low": "low", "high": "high"}
            line |= {key: getattr(row.difference, name, None) for key, name in names.items()}
    return line


def compare(
    runs: Mapping[str, pa.Table],
    qrels: pa.Table,
    measures: Sequence[str],
    *,
    baseline: str,
    seed: int = SEED,
    of_set: bool = False,
    qrels_name: str = "qrels",
) -> Compared:
    """Every other run compared with the baseline.

    Args:
        runs: name -> schema.RUN_FILE.
        qrels: schema.QRELS.
        measures: names in the notation of ir_measures; counts such as NumRel have no mean to
            compare.
        baseline: the name of one of the runs.
        seed: seed of the bootstrap and of the randomisation test.
        of_set: see `evaluate`.
        qrels_name: what messages call the qrels, such as their file.

    Raises:
        InputError: an unknown measure, a count, or a run without judged queries.
    """
    counts = counts_in(measures)
    if counts:
        raise InputError(f"{', '.join(counts)}: a count over all queries; name measures with means")
    measured = {
        name: evaluate(run, qrels, measures, warn=False, of_set=of_set, names=(name, qrels_name))
        for name, run in runs.items()
    }
    warn_of(measured)
    judged = grades_of(qrels)
    shares = {
        (name, m): unjudged(run, judged, _cutoff(m)) for name, run in runs.items() for m in measures
    }
    return compare_measured(measured, measures, baseline=baseline, shares=shares, seed=seed)


def compare_measured(
    measured: Mapping[str, Measured],
    measures: Sequence[str],
    *,
    baseline: str,
    shares: Mapping[tuple[str, str], float] = MappingProxyType({}),
    seed: int = SEED,
) -> Compared:
    """`compare` of runs that are measured already, over the same queries.

    Args:
        measured: name -> values, which have all of the measures.
        measures: none of them a count.
        baseline: one of the names.
        shares: (name, measure) -> share of unjudged rows, if it is to be told.
        seed: seed of the bootstrap and of the randomisation test.
    """
    pairs = [(name, m) for m in measures for name in measured if name != baseline]
    values = [(measured[name].per_query[m], measured[baseline].per_query[m]) for name, m in pairs]
    deltas = [np.array([mine[query] - base[query] for query in base]) for mine, base in values]
    randomised = randomisation_tests(deltas, seed=seed)
    corrected, intervals = holm(randomised), differences(values, seed=seed)
    tests = dict(
        zip(pairs, zip(deltas, randomised, corrected, intervals, strict=True), strict=True)
    )
    rows = [
        _row(name, m, measured[name], tests.get((name, m)), shares.get((name, m), math.nan))
        for m in measures
        for name in measured
    ]
    return Compared(rows, dict(measured), len(pairs))


def unjudged(run: pa.Table, judged: Mapping[str, Container[str]], k: int) -> float:
    """Share of unjudged rows at ranks 1 to k, over the queries that have judgements.

    `judged` has the judged passages of each query, as `grades_of` gives them.
    """
    top = run.filter(pc.less_equal(run["rank"], k))
    total = missing = 0
    for query, passage in zip(
        top["query_id"].to_pylist(), top["passage_id"].to_pylist(), strict=True
    ):
        if query in judged:
            total += 1
            missing += passage not in judged[query]
    return missing / total if total else 0.0


def _cutoff(measure: str) -> int:
    return next(iter(cutoffs_in([measure])), DEFAULT_CUTOFF)


_Test = tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float, float, Difference]
"""Differences by query, p, corrected p, and the mean difference with its interval."""


def _row(name: str, measure: str, of_run: Measured, test: _Test | None, share: float) -> Comparison:
    """One comparison; without a test it is the baseline's own."""
    mean, num = of_run.mean[measure], of_run.num_topics[measure]
    if test is None:
        return Comparison(name, measure, mean, num, share, *[None] * 7)
    deltas, p, corrected, difference = test
    return Comparison(
        run=name,
        measure=measure,
        mean=mean,
        n=num,
        unjudged=share,
        difference=difference,
        wins=difference.wins,
        ties=difference.ties,
        losses=difference.losses,
        p_t=t_test(deltas),
        p_randomisation=p,
        p_holm=corrected,
    )
