"""The analysis `fusion` of a finished workspace: each first stage merged with each other.

Source: RepBERT (Zhan et al. 2020), Tables 3 and 4, whose merge takes passages in turns.
"""

from collections.abc import Mapping
from itertools import permutations

import numpy as np

from raypipe.analysis.depth import RECALL_DEPTHS, cut, depths_up_to, longest
from raypipe.analysis.section import Section, Table, Value
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import about, measured, measures_of, recalls
from raypipe.errors import InputError
from raypipe.evaluation.difference import difference
from raypipe.evaluation.paired import randomisation_tests
from raypipe.ranking.fuse import fuse_tables

MERGED = ("read", "search")


def fusion(finished: Finished, query_set: str) -> Section:
    """Every ordered pair of first stages in the alternate merge, beside the better one alone.

    The merge keeps as many passages as the longer run has; recall is also told of the whole merge.
    Differences are to the better of the two by the first measure, with a 95% interval and the p of
    the randomisation test.

    Raises:
        InputError: fewer than two first stages.
    """
    runs = {
        name: finished.run(name, query_set)
        for name in finished.systems(query_set)
        if finished.recipe.stages[name].do in MERGED
    }
    if len(runs) < 2:
        raise InputError(
            f"{finished.workspace.folder}: expected two first stages or more (search, or read), "
            f"found {', '.join(runs) or 'none'}"
        )
    first = measures_of(finished)[0]
    depths = depths_up_to(max(map(longest, runs.values())), RECALL_DEPTHS)
    names = recalls(finished, [*depths, 2 * depths[-1]])
    wanted = [first, *names.values()]
    alone = {name: measured(finished, query_set, run, wanted) for name, run in runs.items()}
    rows: list[list[Value]] = [
        [name, "-", alone[name].mean[first], *[None] * 5, *_recalls(alone[name].mean, names)]
        for name in runs
    ]
    for one, other in permutations(runs, 2):
        whole = fuse_tables([runs[one], runs[other]], method="alternate", scored_by="merged")
        kept = measured(finished, query_set, cut(whole, depths[-1]), [first])
        better = max((one, other), key=lambda name: alone[name].mean[first])
        mine, theirs = kept.per_query[first], alone[better].per_query[first]
        found = difference(mine, theirs)
        deltas = np.array([mine[query] - theirs[query] for query in theirs])
        (p,) = randomisation_tests([deltas])
        of_whole = measured(finished, query_set, whole, [*names.values()]).mean
        compared = (better, found.mean, found.low, found.high, p)
        rows.append([one, other, kept.mean[first], *compared, *_recalls(of_whole, names)])
    columns = ["first", "then", first, "better alone", "difference", "low", "high", "p"]
    columns += [f"R@{depth}" for depth in names]
    title = "First stages merged in turns"
    return Section(
        "fusion", query_set, [Table(title, columns, rows)], (), about(finished, query_set)
    )


def _recalls(values: Mapping[str, float], names: dict[int, str]) -> list[Value]:
    return [values[measure] for measure in names.values()]
