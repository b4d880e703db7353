import pyarrow as pa
from ranked_tables import run

from raypipe.ranking.fuse import Run


def test_a_run_gives_each_querys_lines_and_none_for_others():
    table = run((4, 9, 2, 1.0), (2, 5, 1, 3.0), (4, 8, 1, 2.0), (6, 1, 1, 0.5))
    opened = Run(table, name="x")
    assert opened.ranking(4).rows.tolist() == [8, 9]
    assert opened.ranking(4).scores.tolist() == [2.0, 1.0]
    assert opened.ranking(2).rows.tolist() == [5] and opened.ranking(6).rows.tolist() == [1]
    for absent in (0, 3, 5, 7):
        assert len(opened.ranking(absent).rows) == len(opened.ranking(absent).scores) == 0
    assert list(opened.problems()) == list(opened.mixed_scales()) == []


def test_a_passage_of_two_queries_is_no_repeat_and_repeats_are_named_up_to_ten():
    assert list(Run(run((0, 7, 1, 2.0), (1, 7, 1, 2.0)), name="x").problems()) == []
    lines = [(0, n // 2, n + 1, float(-n)) for n in range(24)]
    (problem,) = Run(run(*lines), name="x").problems()
    assert "12 repeated" in problem and "(0, 9);" in problem and "(0, 10)" not in problem


def test_scales_are_mixed_only_within_a_query():
    mixed = pa.concat_tables(
        [
            run((0, 1, 1, 2.0), (1, 1, 1, 2.0), (2, 5, 1, 1.0)),
            run((1, 2, 2, 9.0), (2, 6, 2, 9.0), (3, 1, 1, 1.0), scored_by="mono"),
        ]
    )
    (problem,) = Run(mixed, name="x").mixed_scales()
    assert "x: 2 queries (first: query_row 1)" in problem and "(bm25, mono)" in problem
