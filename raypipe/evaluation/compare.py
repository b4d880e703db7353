"""Compares several runs with one, measure by measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe.errors import InputError
from raypipe.evaluation.difference import Difference, difference
from raypipe.evaluation.measured import Measured
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.names import counts_in
from raypipe.evaluation.paired import SEED, holm, randomisation_tests, t_test
from raypipe.evaluation.ties import Ties

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
    """Share of the first k rows that have no judgement; k is the measure's cutoff, or 10."""
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
    """By measure, then in the order of the runs."""
    per_query: dict[str, Measured] = field(repr=False)
    family: int
    """Number of comparisons in Holm's correction."""
    ties: dict[str, Ties] = field(default_factory=dict, repr=False)
    """Each run's score ties, if requested."""


def compare(
    runs: Mapping[str, pa.Table],
    qrels: pa.Table,
    measures: Sequence[str],
    *,
    baseline: str,
    seed: int = SEED,
) -> Compared:
    """Every other run compared with the baseline.

    Args:
        runs: name -> schema.RUN_FILE.
        qrels: schema.QRELS.
        measures: names in the notation of ir_measures; counts such as NumRel have no mean to
            compare.
        baseline: the name of one of the runs.
        seed: seed of the bootstrap and of the randomisation test.

    Raises:
        InputError: an unknown measure, a count, or a run without judged queries.
    """
    counts = counts_in(measures)
    if counts:
        raise InputError(f"{', '.join(counts)}: a count over all queries; name measures with means")
    measured = {name: evaluate(run, qrels, measures) for name, run in runs.items()}
    pairs = [(name, m) for m in measures for name in runs if name != baseline]
    deltas = [_deltas(measured[name], measured[baseline], m) for name, m in pairs]
    randomised = randomisation_tests(deltas, seed=seed)
    tests = dict(zip(pairs, zip(deltas, randomised, holm(randomised), strict=True), strict=True))
    judged = _judged(qrels)
    rows = [
        _row(name, m, measured, baseline, tests, unjudged(runs[name], judged, _cutoff(m)), seed)
        for m in measures
        for name in runs
    ]
    return Compared(rows, measured, len(pairs))


def unjudged(run: pa.Table, judged: Mapping[str, set[str]], k: int) -> float:
    """Share of unjudged rows at ranks 1 to k, over the queries that have judgements."""
    top = run.filter(pc.less_equal(run["rank"], k))
    total = missing = 0
    for query, passage in zip(
        top["query_id"].to_pylist(), top["passage_id"].to_pylist(), strict=True
    ):
        if query in judged:
            total += 1
            missing += passage not in judged[query]
    return missing / total if total else 0.0


def _judged(qrels: pa.Table) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for query, passage in zip(
        qrels["query_id"].to_pylist(), qrels["passage_id"].to_pylist(), strict=True
    ):
        found.setdefault(query, set()).add(passage)
    return found


def _deltas(
    run: Measured, baseline: Measured, measure: str
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values, base = run.per_query[measure], baseline.per_query[measure]
    return np.array([values[query] - base[query] for query in base])


def _cutoff(measure: str) -> int:
    _, _, cutoff = measure.partition("@")
    return int(cutoff) if cutoff.isdigit() else DEFAULT_CUTOFF


_Tests = Mapping[tuple[str, str], tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float, float]]


def _row(
    name: str,
    measure: str,
    measured: Mapping[str, Measured],
    baseline: str,
    tests: _Tests,
    share: float,
    seed: int,
) -> Comparison:
    mean, num = measured[name].mean[measure], measured[name].num_topics[measure]
    if name == baseline:
        return Comparison(name, measure, mean, num, share, *[None] * 7)
    deltas, p, corrected = tests[name, measure]
    values, base = measured[name].per_query[measure], measured[baseline].per_query[measure]
    return Comparison(
        run=name,
        measure=measure,
        mean=mean,
        n=num,
        unjudged=share,
        difference=difference(values, base, seed=seed),
        wins=int((deltas > 0).sum()),
        ties=int((deltas == 0).sum()),
        losses=int((deltas < 0).sum()),
        p_t=t_test(deltas),
        p_randomisation=p,
        p_holm=corrected,
    )
