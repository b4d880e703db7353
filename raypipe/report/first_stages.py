"""Analyses of the first stages: depth, fusion and consistency.

Depth is what candidates cost and gain: recall, and a reranker over them; fusion merges each first
stage with each other; consistency is how much of a run a reference run has.

Source: RepBERT (Zhan et al. 2020), Table 2 and Figure 1 (depth), Tables 3 and 4 (fusion, whose
merge takes passages in turns), Figure 2 (consistency); Nogueira et al. 2019, Figure 2 (depth).
"""

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe.errors import InputError
from raypipe.evaluation.measures import Measured
from raypipe.evaluation.names import cutoffs_in
from raypipe.evaluation.overlap import rankings_of
from raypipe.evaluation.run_files.runs import read_run
from raypipe.evaluation.significance import differences, randomisation_tests
from raypipe.kinds.read import GivenRun
from raypipe.kinds.score import MonoScore
from raypipe.markdown import Table, Value
from raypipe.names import of_stage
from raypipe.ranking.blend import reranked_at
from raypipe.ranking.fuse import fuse_tables
from raypipe.report.charts import Chart
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
    needed,
    of_system,
    outside,
    recall_of,
    recalls,
    relevant_grade,
)
from raypipe.report.page import ReportSection
from raypipe.stages.scoring.rerank import blend_and_depth

RERANKED_DEPTHS = (5, 10, 50, 100, 500, 1000)
"""Depths of candidates for a reranker, those of RepBERT's Table 2."""
CUTOFFS = (5, 10, 20, 50, 100, 200, 500, 1000)
ELSEWHERE = "a larger collection"


def depth(finished: Finished, query_set: str) -> ReportSection:
    """Recall of each first stage by depth, and each reranker by its number of candidates.

    Depths beyond a run's longest list are left out. A reranker's values come from its one scoring.
    """
    recall = {
        marked(finished, name): recall_of(finished, query_set, name)
        for name in finished.first_stages(query_set)
    }
    reranked = _reranked(finished, query_set)
    depths = sorted({number for values in recall.values() for number in values})
    measures = measures_of(finished)
    tables = [
        Table(
            "Recall of the first stages by depth",
            ["first stage", *map(str, depths)],
            [[name, *(values.get(number) for number in depths)] for name, values in recall.items()],
        )
    ]
    lines = {name: [*values.items()] for name, values in recall.items()}
    charts = [Chart("Recall by depth", "depth", "recall", lines, log_x=True)]
    if reranked:
        rows: list[list[Value]] = [
            [name, run, number, *(means[measure] for measure in measures)]
            for (name, run), by_depth in reranked.items()
            for number, means in by_depth.items()
        ]
        title = "Rerankers by the number of candidates"
        tables.append(Table(title, ["reranker", "over", "candidates", *measures], rows))
        by_candidates = {
            marked(finished, name): [(n, means[measures[0]]) for n, means in by_depth.items()]
            for (name, _), by_depth in reranked.items()
        }
        title = f"{measures[0]} by candidates"
        charts.append(Chart(title, "candidates", measures[0], by_candidates, log_x=True))
    notes = [
        *about(finished, query_set),
        f"recall counts grade {relevant_grade(finished)} or higher",
        *outside(finished, query_set, finished.first_stages(query_set)),
    ]
    return ReportSection("depth", query_set, tables, charts, notes)


def _reranked(
    finished: Finished, query_set: str
) -> dict[tuple[str, str], dict[int, dict[str, float]]]:
    """(reranker, its input) -> candidates -> measure -> mean."""
    by_reranker = {}
    for name in finished.systems(query_set):
        stage = finished.recipe.stages[name]
        if not isinstance(stage, MonoScore):
            continue
        runs = (finished.run(each, query_set) for each in (stage.run, name))
        measures = measures_of(finished)
        first, scored = (needed(finished, query_set, r, measures, most=stage.k0) for r in runs)
        if not len(first):
            continue
        blend = blend_and_depth(finished.stored(of_stage(name, query_set)))
        by_depth = {}
        *fewer, all_of_them = depths_up_to(min(stage.k0, longest(first)), RERANKED_DEPTHS)
        for number in fewer:
            run = reranked_at(
                first, scored, scored_by=name, depth=number, tail=stage.tail, blend=blend
            )
            by_depth[number] = dict(measured(finished, query_set, run, measures).mean)
        by_depth[all_of_them] = dict(of_system(finished, query_set, name).mean)
        by_reranker[name, marked(finished, stage.run)] = by_depth
    return by_reranker


def fusion(finished: Finished, query_set: str) -> ReportSection | None:
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
    for order, delta, p in tested:
        compared = (marked(finished, better[order]), delta.mean, delta.low, delta.high, p)
        mean = kept_by_order[order].mean[first]
        named = (marked(finished, name) for name in order)
        recall = (recall_by_order[order][measure] for measure in names.values())
        rows.append([*named, mean, *compared, *recall])
    columns = ["first", "then", first, "better alone", "difference", "low", "high", "p"]
    columns += names.values()
    table = Table("First stages merged in turns", columns, rows)
    notes = [*about(finished, query_set), *outside(finished, query_set, merged)]
    return ReportSection("fusion", query_set, [table], (), notes)


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


class Consistency(NamedTuple):
    """The consistency factor of one run."""

    mean: dict[int, float]
    """Cutoff -> its mean over the queries."""
    num_queries: int
    """Queries of both, the run and the reference."""


def consistency_factor(
    run: pa.Table, reference: pa.Table, cutoffs: Sequence[int] = CUTOFFS
) -> Consistency:
    """The share of a run's first n passages that the reference has anywhere, for each cutoff n.

    For a query q it is |D & R| / |D|, where D are the first n passages of the run, or all of them
    if there are fewer, and R are all passages of the reference, such as the official top 1,000,
    whose irrelevant passages a reranker was trained on. The mean is over the queries that both
    have. The paper's runs have n passages for every query; only there is it the same to divide the
    sums over all queries. The paper's Eq. 5 is over all queries; here one that the reference lacks
    is left out, where it would count as 0.

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
    first = {query: passages for query, passages in rankings_of(run).items() if query in known}
    if not first:
        raise InputError("the run and the reference have no query in common; check their ids")
    shares = dict.fromkeys(cutoffs, 0.0)
    for query, passages in first.items():
        for cutoff in shares:
            taken = passages[:cutoff]
            shares[cutoff] += sum(each in known[query] for each in taken) / len(taken)
    return Consistency({n: total / len(first) for n, total in shares.items()}, len(first))


def consistencies(
    finished: Finished, reference: str, query_set: str | None = None
) -> list[ReportSection]:
    """`consistency` of one query set, or of each with runs of passages and a query of the file.

    Judgements are not needed.

    Raises:
        InputError: see `consistency`, an unknown query set, or no query set that fits.
    """
    chosen, file = finished.chosen(query_set), None
    if query_set is None:
        chosen = [name for name in chosen if finished.systems(name)]
    if len(chosen) > 1 and not any(reference in finished.systems(name) for name in chosen):
        file = read_run(Path(reference))
        known = set(pc.unique(file["query_id"]).to_pylist())
        fitting = [name for name in chosen if not known.isdisjoint(finished.query_texts(name))]
        if not fitting:
            raise InputError(
                f"--reference {reference}: no query of {' or '.join(chosen)} is in it; check "
                "their ids"
            )
        chosen = fitting
    return [consistency(finished, each, reference, file=file) for each in chosen]


def consistency(
    finished: Finished, query_set: str, reference: str, *, file: pa.Table | None = None
) -> ReportSection:
    """The consistency factor of each first stage with another run, up to its longest list.

    Only runs over the reference's own collection are compared: a passage that the reference could
    not find would count as one that it did not choose. The others are named.

    Args:
        finished: the workspace.
        query_set: one of its query sets.
        reference: one of the recipe's systems, or a run file. A file that a stage reads ranks what
            that stage says; another one with passages that are not in the collection ranks a larger
            one.
        file: the run in that file (schema.RUN_FILE), if it was read before.

    Source: RepBERT (Zhan et al. 2020), Figure 2.

    Raises:
        InputError: no run, a run that shares no query with a first stage, or no first stage over
            the reference's collection.
    """
    given, where, own = _given(finished, query_set, reference, file)
    names = [name for name in finished.first_stages(query_set) if name != own]
    alike = [name for name in names if _of(finished, name, where)]
    apart = [name for name in names if name not in alike]
    if not alike:
        raise InputError(
            f"--reference {reference}: it ranks {where or 'this collection'}, and no other first "
            f"stage of {query_set} does ({', '.join(apart) or 'there is none'}): a passage that "
            "the reference could not find would count as one that it did not choose; give a run "
            "over the same collection, and name a larger one with larger_collection in the recipe"
        )
    factors, queries, lacking = {}, {}, 0
    for name in alike:
        run = finished.run(name, query_set)
        if longest(run):
            cutoffs = depths_up_to(longest(run), CUTOFFS)
            factor = consistency_factor(finished.named(run, query_set), given, cutoffs)
            factors[name], queries[name] = factor.mean, factor.num_queries
            lacking = max(lacking, len(pc.unique(run["query_row"])) - factor.num_queries)
    depths = sorted({depth for values in factors.values() for depth in values})
    rows = [[n, queries[n], *(values.get(d) for d in depths)] for n, values in factors.items()]
    title = f"Share of the first passages that {Path(reference).name} has"
    table = Table(title, ["first stage", "queries", *map(str, depths)], rows)
    lines = {name: [*values.items()] for name, values in factors.items()}
    chart = Chart("Consistency by depth", "depth", "consistency", lines, log_x=True)
    notes = _notes(finished, query_set, where, alike, apart)
    if lacking:
        notes.insert(1, f"queries that the reference lacks, left out of the means: {lacking}")
    return ReportSection("consistency", query_set, [table], [chart], notes)


def _notes(
    finished: Finished,
    query_set: str,
    where: str | None,
    alike: Sequence[str],
    apart: Sequence[str],
) -> list[str]:
    notes = ["the reference counts whole, in any order; every run counts up to its longest list"]
    if where is not None:
        notes.append(f"all of these runs, and the reference, rank {where}, not this collection")
        notes += finished.left_out(query_set, alike)
    if apart:
        notes.append(
            f"left out, since they rank another collection than the reference: {', '.join(apart)}"
        )
    return notes


def _given(
    finished: Finished, query_set: str, reference: str, file: pa.Table | None
) -> tuple[pa.Table, str | None, str | None]:
    """The reference, schema.RUN_FILE, the larger collection that it ranks, and its system."""
    if reference in finished.systems(query_set):
        run = finished.named(finished.run(reference, query_set), query_set)
        return run, finished.larger_collection(reference), reference
    path = Path(reference)
    given = read_run(path) if file is None else file
    for name in finished.first_stages(query_set):
        stage = finished.recipe.stages[name]
        if isinstance(stage, GivenRun) and Path(stage.runs[query_set]).resolve() == path.resolve():
            return given, finished.larger_collection(name), name
    known = finished.ranked().have(pc.unique(given["passage_id"]).to_pylist())
    return given, None if known else ELSEWHERE, None


def _of(finished: Finished, name: str, where: str | None) -> bool:
    """Whether a run ranks the collection `where`; any larger one where its name is not known."""
    own = finished.larger_collection(name)
    return own is not None if where == ELSEWHERE else own == where
