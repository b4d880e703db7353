"""What measuring a run gives, and the warnings about it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from raypipe.evaluation.run_files.columns import SHOWN

logger = logging.getLogger(__name__)


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


def warn_of(measured: Mapping[str, Measured], where: str = "") -> None:
    """Log the queries that count 0 or are left out, and that nothing retrieved is judged.

    What is alike of several runs is one line, with their names and ` on QUERYSET` behind them.
    """
    told: dict[str, list[str]] = {}
    for name, found in measured.items():
        lines = [
            f"{_queries(queries)} of the {of} {'is' if len(queries) == 1 else 'are'} not in the "
            f"{other} and {verb[len(queries) > 1]}: {some(queries)}"
            for queries, of, other, verb in (
                (found.missing_queries, "qrels", "run", ("counts 0", "count 0")),
                (found.unjudged_queries, "run", "qrels", ("is left out", "are left out")),
            )
            if queries
        ]
        if not found.num_judged:
            lines.append(
                f"none of {found.num_retrieved} retrieved ids is judged: are the run and the qrels "
                "of the same passages, or of the same documents?"
            )
        for line in lines:
            told.setdefault(line, []).append(name)
    for line, names in told.items():
        logger.warning("%s%s: %s", ", ".join(names), where, line)


def _queries(queries: Sequence[str]) -> str:
    return "1 query" if len(queries) == 1 else f"{len(queries):,} queries"


def some(names: Mapping[str, object] | Sequence[str]) -> str:
    """The first ten names, for a message."""
    shown = list(names)[:SHOWN]
    return ", ".join(shown) + (", ..." if len(names) > SHOWN else "")
