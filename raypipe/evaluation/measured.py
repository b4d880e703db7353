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


def warn_of(measured: Measured) -> None:
    """Log the queries that count 0 or are left out, and that nothing retrieved is judged."""
    missing, unjudged = measured.missing_queries, measured.unjudged_queries
    if missing:
        logger.warning(
            "%d queries of the qrels are not in the run and count 0: %s",
            len(missing),
            some(missing),
        )
    if unjudged:
        logger.warning(
            "%d queries of the run are not in the qrels and are left out: %s",
            len(unjudged),
            some(unjudged),
        )
    if not measured.num_judged:
        logger.warning(
            "none of %d retrieved ids is judged: are the run and the qrels of the same passages, "
            "or of the same documents?",
            measured.num_retrieved,
        )


def some(names: Mapping[str, object] | Sequence[str]) -> str:
    """The first ten names, for a message."""
    shown = list(names)[:SHOWN]
    return ", ".join(shown) + (", ..." if len(names) > SHOWN else "")
