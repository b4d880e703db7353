"""The analysis `fusion` of a finished workspace: each first stage merged with each other.

Source: RepBERT (Zhan et al. 2020), Tables 3 and 4, whose merge takes passages in turns.
"""

from collections.abc import Mapping
from itertools import permutations

import numpy as np

from raypipe.analysis.depth import RECALL_DEPTHS, cut, depths_up_to, longest
from raypipe.analysis.section import Section, Table, Value
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import (
    about,
    marked,
    measured,
    measures_of,
    outside,
    recalls,
)
from raypipe.evaluation.difference import differences
from raypipe.evaluation.measured import Measured
from raypipe.evaluation.paired import randomisation_tests
from raypipe.ranking.fuse import fuse_tables


def fusion(finished: Finished, query_set: str) -> Section | None:
    """Every ordered pair of first stages in the alternate merge, beside the better one alone.

    The merge keeps as many passages as the longer run has; recall is also told of the whole merge.
    Differences are to the better of the two by the first measure, with a 95% interval and the p of
    the randomisation test. None if there are fewer than two first stages that are not merged ones
    themselves.
    """
    stages = finished.recipe.stages
    merged = [name for name in finished.first_stages(query_set) if stages[name].do != "fuse"]
    if len(merged) < 2:
        return None
    runs = {name: finished.run(name, query_set) for name in merged}
    first = measures_of(finished)[0]
    depths = depths_up_to(max(map(longest, runs.values())), RECALL_DEPTHS)
    names = recalls(finished, [*depths, 2 * depths[-1]])
    wanted = [first, *names.values()]
    alone = {name: measured(finished, query_set, run, wanted) for name, run in runs.items()}
    rows: list[list[Value]] = [
        [
            marked(finished, name),
            "-",
            alone[name].mean[first],
            *[None] * 5,
            *_recalls(alone[name].mean, names),
        ]
        for name in runs
    ]
    kept_by_order: dict[tuple[str, str], Measured] = {}
    recall_by_order: dict[tuple[str, str], Mapping[str, float]] = {}
    for order in permutations(runs, 2):
        whole = fuse_tables([runs[name] for name in order], method="alternate", scored_by="merged")
        kept_by_order[order] = measured(finished, query_set, cut(whole, depths[-1]), [first])
        recall_by_order[order] = measured(finished, query_set, whole, [*names.values()]).mean
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


def _recalls(values: Mapping[str, float], names: dict[int, str]) -> list[Value]:
    return [values[measure] for measure in names.values()]
