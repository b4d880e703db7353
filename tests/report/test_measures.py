"""Leaving out the ends of lists changes no value."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.evaluation.measures import evaluate
from raypipe.ranking.blend import Blend, reranked_at
from raypipe.ranking.rerank import rerank
from raypipe.report import finished as measuring
from raypipe.report.finished import (
    RECALL_DEPTHS,
    cut,
    depths_up_to,
    down_to,
    longest,
    measured,
    needed,
    of_system,
    places_of,
    recall_of,
    recalls,
)
from raypipe.report.first_stages import RERANKED_DEPTHS, depth, fusion
from raypipe.report.queries import queries
from raypipe.report.results import overview


def run(*lines):
    """Lines of (query, passage, rank, score, stage)."""
    columns = zip(*lines, strict=True)
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, schema.RUN, strict=True)], schema=schema.RUN
    )


FIRST = run(
    (0, 7, 1, 9.0, "bm25"), (0, 3, 2, 8.0, "bm25"), (0, 5, 3, 7.0, "bm25"), (0, 1, 4, 6.0, "bm25"),
    (2, 5, 1, 4.0, "bm25"), (2, 7, 2, 3.0, "bm25"),
)  # fmt: skip
SCORED = run(
    (0, 5, 1, 0.9, "mono"), (0, 3, 2, 0.5, "mono"), (0, 7, 3, 0.5, "mono"), (0, 1, 4, 6.0, "bm25"),
    (2, 7, 1, 0.2, "mono"), (2, 5, 2, 0.1, "mono"),
)  # fmt: skip
"""The first three of each query scored, the fourth in its old place."""


def lines(table):
    names = ("query_row", "passage_row", "rank", "scored_by")
    return [*zip(*(table[name].to_pylist() for name in names), strict=True)]


def test_depths_end_with_the_deepest_there_is():
    assert depths_up_to(40, (5, 10, 50)) == [5, 10, 40]
    assert depths_up_to(10, (10, 5, 5)) == [5, 10]
    assert depths_up_to(3, (5, 10)) == [3]


def test_the_depths_are_the_papers():
    assert RECALL_DEPTHS == (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
    assert RERANKED_DEPTHS == (5, 10, 50, 100, 500, 1000)


def test_a_run_is_cut_at_a_rank_and_its_longest_list_counted():
    assert (longest(FIRST), longest(schema.RUN.empty_table())) == (4, 0)
    assert cut(FIRST, 1)["passage_row"].to_pylist() == [7, 5]


def test_with_fewer_candidates_the_others_stay_below_in_their_order():
    found = reranked_at(FIRST, SCORED, scored_by="mono", depth=2, tail="keep")
    assert lines(found) == [
        (0, 3, 1, "mono"), (0, 7, 2, "mono"), (0, 5, 3, "bm25"), (0, 1, 4, "bm25"),
        (2, 7, 1, "mono"), (2, 5, 2, "mono"),
    ]  # fmt: skip
    dropped = reranked_at(FIRST, SCORED, scored_by="mono", depth=2, tail="drop")
    assert dropped["passage_row"].to_pylist() == [3, 7, 7, 5]


def test_with_all_candidates_it_is_the_rerankers_own_run():
    assert reranked_at(FIRST, SCORED, scored_by="mono", depth=3, tail="keep").equals(SCORED)


def test_a_candidate_without_a_score_is_ranked_only_below_the_candidates():
    lacking = SCORED.filter(pa.array(np.array([False, True, True, True, True, True])))
    within = reranked_at(FIRST, lacking, scored_by="mono", depth=3, tail="keep")
    assert within["passage_row"].to_pylist() == [3, 7, 1, 7, 5]
    below = reranked_at(FIRST, lacking, scored_by="mono", depth=2, tail="keep")
    assert below["passage_row"].to_pylist() == [3, 7, 5, 1, 7, 5]


def test_a_reranker_that_scored_nothing_leaves_no_candidate():
    none = reranked_at(FIRST, FIRST, scored_by="mono", depth=3, tail="keep")
    assert none["passage_row"].to_pylist() == [1]


def test_a_run_goes_down_to_its_last_wanted_line_and_never_below_so_many():
    lines = [(0, 5, 1), (0, 6, 2), (0, 7, 3), (0, 8, 4), (2, 5, 1), (2, 6, 2), (2, 9, 3)]
    whole = run(*((*line, 0.0, "x") for line in lines))
    wanted = (np.array([0, 0, 1, 2]), np.array([5, 7, 9, 3]))

    def kept(most):
        found = down_to(whole, *wanted, most=most)
        return list(zip(*(found[c].to_pylist() for c in ("query_row", "rank")), strict=True))

    assert kept(1) == [(0, 1), (0, 2), (0, 3), (2, 1)]
    assert kept(2) == [(0, 1), (0, 2), (0, 3), (2, 1), (2, 2)]
    assert len(down_to(whole.slice(0, 0), *wanted)) == 0


def test_a_blend_is_moved_to_the_range_of_fewer_candidates():
    """Raw scores 0.5, 0.5 and 0.9 of query 0; over two candidates z is 1 and 0, and not 1, 1/2."""
    blend = Blend(0.5, "raw")
    scored = run(
        (0, 7, 1, 1.0, "mono"), (0, 5, 2, 0.9, "mono"), (0, 3, 3, 0.75, "mono"),
        (0, 1, 4, 6.0, "bm25"), (2, 5, 1, 0.6, "mono"), (2, 7, 2, 0.2, "mono"),
    )  # fmt: skip
    found = reranked_at(FIRST, scored, scored_by="mono", depth=2, tail="drop", blend=(blend, 3))
    assert lines(found) == [
        (0, 7, 1, "mono"), (0, 3, 2, "mono"), (2, 5, 1, "mono"), (2, 7, 2, "mono"),
    ]  # fmt: skip
    np.testing.assert_allclose(found["score"].to_numpy(), [1.0, 0.5, 0.6, 0.2], rtol=1e-6)


def run_of(pairs):
    queries, passages = ([*column] for column in zip(*pairs, strict=True)) if pairs else ([], [])
    ranks, scores, stages = [1] * len(pairs), [0.0] * len(pairs), ["x"] * len(pairs)
    columns = (queries, passages, ranks, scores, stages)
    return pa.table([*columns], schema=schema.RUN)


def test_each_line_has_its_place_among_the_pairs():
    rng = np.random.default_rng(5)
    for size in (1, 3, 40):
        pairs = sorted({(int(q), int(p)) for q, p in rng.integers(0, 9, (size, 2))})
        lines = [(int(q), int(p)) for q, p in rng.integers(0, 12, (200, 2))]
        wanted = np.array(pairs, np.int64)
        expected = [pairs.index(line) if line in pairs else -1 for line in lines]
        assert places_of(run_of(lines), wanted[:, 0], wanted[:, 1]).tolist() == expected


def test_rows_as_large_as_they_become_are_told_apart():
    top, last = 2**31 - 1, 138_364_198
    wanted = np.array([[top - 1, last], [top, 0], [top, last]], np.int64)
    run = run_of([(top, last), (top - 1, last), (top, 1), (0, last), (top, 0)])
    assert places_of(run, wanted[:, 0], wanted[:, 1]).tolist() == [2, 0, -1, -1, 1]


def test_nothing_is_among_nothing():
    none = np.empty(0, np.int64)
    assert places_of(run_of([(0, 0)]), none, none).tolist() == [-1]
    assert places_of(run_of([]), np.array([0]), np.array([0])).tolist() == []


@pytest.mark.parametrize(
    "measure", ["nDCG@2", "nDCG(judged_only=True)@2", "AP(judged_only=True)@1"]
)
def test_values_are_those_of_the_whole_list(outside, measure):
    """Of 7 passages, q1's judged ones are the first and the last but one."""
    work, _ = outside
    for system in work.systems("test"):
        run = work.run(system, "test")
        whole = evaluate(work.named(run, "test"), work.judgements("test"), [measure], warn=False)
        assert measured(work, "test", run, [measure]).per_query == whole.per_query


class _Judged:
    """The last passage of one query is judged."""

    def judged_rows(self, query_set):
        return np.array([0]), np.array([11])


def test_enough_is_left_where_candidates_are_in_quarantine():
    """They are left out, so the passages below move up."""
    rows = np.arange(12)
    columns = [np.zeros(12, np.int64), rows, rows + 1, 12.0 - rows, ["first"] * 12]
    first = pa.table([*map(pa.array, columns)], names=schema.RUN.names).cast(schema.RUN)
    failed = rows < 2
    how = {"tail": "keep", "scored_by": "mono"}
    whole = rerank(first, np.zeros(12, np.float32), k=5, failed=failed, **how)
    left, scored = (needed(_Judged(), "test", r, ["RR@10"], most=5) for r in (first, whole))
    found = reranked_at(left, scored, depth=5, **how)
    assert found.slice(0, 10).equals(whole.slice(0, 10))
    assert found["passage_row"][9].as_py() == 11


@pytest.fixture
def counted(monkeypatch):
    """The number of lines of each run that was measured by the recipe's first measure."""
    calls = []

    def evaluated(run, judged, measures, **more):
        if "RR@10" in measures:
            calls.append(len(run))
        return evaluate(run, judged, measures, **more)

    monkeypatch.setattr(measuring, "evaluate", evaluated)
    return calls


def test_no_run_is_measured_twice_for_a_page(finished, counted):
    """Five systems; the first reranker at depth 5, which is a run of its own; two merges."""
    fresh = replace(finished)
    for section in (overview, depth, fusion, queries):
        section(fresh, "test")
    assert len(counted) == len(fresh.systems("test")) + 1 + 2 == 8


def test_values_are_those_of_the_run_by_itself(finished):
    for system in finished.systems("test"):
        run = finished.named(finished.run(system, "test"), "test")
        whole = evaluate(run, finished.judgements("test"), ["RR@10", "R@5"], warn=False)
        found = of_system(finished, "test", system)
        assert (found.per_query, found.mean) == (whole.per_query, whole.mean)
        assert found.num_topics == whole.num_topics
        assert found.missing_queries == whole.missing_queries
    for system in finished.first_stages("test"):
        recall = recall_of(finished, "test", system)
        assert [*recall] == {"dense": [5, 10, 20], "given": [5, 10]}[system]
        names = recalls(finished, [*recall])
        run = finished.run(system, "test")
        assert recall == {n: measured(finished, "test", run, [m]).mean[m] for n, m in names.items()}


def test_a_rerankers_own_depth_and_a_first_stages_recall_are_the_runs_own(finished):
    """At k0 8 the value is that of the run; the fusion table's recall that of the depth table."""
    reranked = depth(finished, "test").tables[1]
    last = [row for row in reranked.rows if row[0] == "first"][-1]
    assert last[2:] == [8, *of_system(finished, "test", "first").mean.values()]
    rows = {row[0]: row for row in fusion(finished, "test").tables[0].rows if row[1] == "-"}
    given = recall_of(finished, "test", "given")
    assert rows["given"][8:] == [given[5], given[10], given[10], given[10]]
