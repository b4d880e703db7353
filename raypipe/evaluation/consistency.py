"""How far a run's first passages are those that a reranker was trained on."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from raypipe.errors import InputError
from raypipe.evaluation.overlap import rankings_of

CUTOFFS = (5, 10, 20, 50, 100, 200, 500, 1000)


class Consistency(NamedTuple):
    """The consistency factor of one run."""

    mean: dict[int, float]
    """Cutoff -> its mean over the queries."""
    num_queries: int
    """Queries of both, the run and the reference."""


def consistency(
    run: pa.Table, reference: pa.Table, cutoffs: Sequence[int] = CUTOFFS
) -> Consistency:
    """The share of a run's first n passages that the reference has anywhere, for each cutoff n.

    For a query q it is |D & R| / |D|, where D are the first n passages of the run, or all of them
    if there are fewer, and R are all passages of the reference, such as the official top 1,000,
    whose irrelevant passages a reranker was trained on. The mean is over the queries that both
    have. The paper's runs have n passages for every query; only there is it the same to divide the
    sums over all queries.

    Args:
        run: a run (schema.RUN_FILE), best first.
        reference: another run, for the same collection; its order does not matter.
        cutoffs: numbers n from 1.

    Raises:
        InputError: a cutoff below 1, or no query in common.

    Source: Zhan et al. 2020 (RepBERT), the consistency factor C(f, n) of Figure 2.
    """
    if not cutoffs or min(cutoffs) < 1:
        raise InputError(f"cutoffs: expected whole numbers from 1; found {list(cutoffs)}")
    known = {query: set(passages) for query, passages in rankings_of(reference).items()}
    first = {query: found for query, found in rankings_of(run).items() if query in known}
    if not first:
        raise InputError("the run and the reference have no query in common; check their ids")
    shares = dict.fromkeys(cutoffs, 0.0)
    for query, passages in first.items():
        for cutoff in shares:
            taken = passages[:cutoff]
            shares[cutoff] += sum(each in known[query] for each in taken) / len(taken)
    return Consistency({n: total / len(first) for n, total in shares.items()}, len(first))
