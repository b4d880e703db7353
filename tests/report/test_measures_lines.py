import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.ranking.blend import Blend, reranked_at
from raypipe.report.depth import RERANKED_DEPTHS
from raypipe.report.measures import (
    RECALL_DEPTHS,
    cut,
    depths_up_to,
    down_to,
    longest,
)


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
