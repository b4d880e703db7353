"""The analysis `fusion` of a finished workspace: each first stage merged with each other.

Source: RepBERT (Zhan et al. 2020), Tables 3 and 4, whose merge takes passages in turns.
"""

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import pyarrow as pa

from raypipe.evaluation.measures import Measured
from raypipe.evaluation.names import cutoffs_in
from raypipe.evaluation.paired import differences, randomisation_tests
from raypipe.ranking.fuse import fuse_tables
from raypipe.report.finished import (
    RECALL_DEPTHS,
    Finished,
    about,
    cut,
    depths_up_to,
    longest,
    marked,
    measured,
    measures_of,
    of_system,
    outside,
    recall_of,
    recalls,
)
from raypipe.report.section import Section, Table, Value


def fusion(finished: Finished, query_set: str) -> Section | None:
    """Every ordered pair of first stages in the alternate merge, beside the better one alone.

    The merge keeps as many passages as the longer run has; recall is also told of the whole merge.
    Differences are to the better of the two by the first measure, with a 95% interval and the p of
    the randomisation test. None if there are fewer than two first stages that are not merged ones
    themselves, or none of them found anything.
    """
    stages = finished.recipe.stages
    merged = [name for name in finished.first_stages(query_set) if stages[name].do != "fuse"]
    runs = {name: finished.run(name, query_set) for name in merged}
    if len(merged) < 2 or not any(map(len, runs.values())):
        return None
    first = measures_of(finished)[0]
    depths = depths_up_to(max(map(longest, runs.values())), RECALL_DEPTHS)
    names = recalls(finished, [*depths, 2 * depths[-1]])
    alone = {name: of_system(finished, query_set, name) for name in runs}
    rows: list[list[Value]] = [
        [
            marked(finished, name),
            "-",
            alone[name].mean[first],
            *[None] * 5,
            *_up_to(recall_of(finished, query_set, name), [*names]),
        ]
        for name in runs
    ]
    kept_by_order: dict[tuple[str, str], Measured] = {}
    recall_by_order: dict[tuple[str, str], Mapping[str, float]] = {}
    for order in permutations(runs, 2):
        whole = fuse_tables([runs[name] for name in order], method="alternate", scored_by="merged")
        kept_by_order[order], recall_by_order[order] = _of_merge(
            finished, query_set, whole, first, names
        )
    better = {order: max(order, key=lambda n: alone[n].mean[first]) for order in kept_by_order}
    pairs = [
        (kept.per_query[first], alone[better[order]].per_query[first])
        for order, kept in kept_by_order.items()
    ]
    deltas = [np.array([mine[q] - theirs[q] for q in theirs]) for mine, theirs in pairs]
    tested = zip(kept_by_order, differences(pairs), randomisation_tests(deltas), strict=True)
    for order, found, p in tested:
        compared = (marked(finished, better[order]), found.mean, found.low, found.high, p)
        mean = kept_by_order[order].mean[first]
        named = (marked(finished, name) for name in order)
        rows.append([*named, mean, *compared, *_recalls(recall_by_order[order], names)])
    columns = ["first", "then", first, "better alone", "difference", "low", "high", "p"]
    columns += names.values()
    table = Table("First stages merged in turns", columns, rows)
    notes = [*about(finished, query_set), *outside(finished, query_set, merged)]
    return Section("fusion", query_set, [table], (), notes)


def _of_merge(
    finished: Finished, query_set: str, whole: pa.Table, first: str, names: Mapping[int, str]
) -> tuple[Measured, Mapping[str, float]]:
    """The first measure of what a merge keeps, and recall of all of it; at once if it can be."""
    *_, kept, _ = names
    cutoffs = cutoffs_in([first])
    if cutoffs and cutoffs[0] <= kept:
        both = measured(finished, query_set, whole, [*dict.fromkeys([first, *names.values()])])
        return both, both.mean
    recall = measured(finished, query_set, whole, [*names.values()]).mean
    return measured(finished, query_set, cut(whole, kept), [first]), recall


def _up_to(recall: Mapping[int, float], depths: Sequence[int]) -> list[Value]:
    """Recall at each depth; a list that ends above it finds no more there."""
    last = recall[max(recall)] if recall else 0.0
    return [recall.get(depth, last) for depth in depths]


def _recalls(values: Mapping[str, float], names: dict[int, str]) -> list[Value]:
    return [values[measure] for measure in names.values()]
