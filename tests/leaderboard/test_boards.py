import ir_measures
import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.leaderboard.boards import BOARDS, reciprocal_rank
from raypipe.leaderboard.submission import Filled, fill


def test_boards_take_what_their_scripts_and_guidelines_say():
    passage, document = BOARDS["msmarco-passage"], BOARDS["msmarco-doc"]
    # MS MARCO passage: 8,841,823 passages, 6,980 dev and 6,837 eval queries, MRR@10 of 1,000 rows.
    assert (passage.num_passages, passage.depths[0][1]) == (8_841_823, 1000)
    assert (passage.measure.name, document.measure.name) == ("MRR @10", "MRR @100")
    assert dict(passage.query_sets) == {"dev": 6980, "eval": 6837}
    # Documents: 5,193 dev and 5,793 eval queries, MRR@100 of 100 rows.
    assert (document.num_passages, document.depths[0][1]) == (None, 100)
    assert dict(document.query_sets) == {"dev": 5193, "eval": 5793}
    for board in (passage, document):
        assert board.full_rows and board.metadata and board.form == "msmarco"
    for name in ("trec-dl", "trec-car", "local"):
        board = BOARDS[name]
        assert not board.full_rows and not board.metadata and board.measure is None
        assert board.form == ("msmarco" if name == "local" else "trec")
    qrels = qrels_of(("1", "a", 1))
    for board, cutoff in ((passage, 10), (document, 100)):
        for rank, value in ((cutoff, 1 / cutoff), (cutoff + 1, 0.0)):
            ranking = {"1": [*map(str, range(rank - 1)), "a"]}
            assert board.measure.compute(ranking, qrels) == (value, 1)
    depths = {pattern.pattern: rows for pattern, rows in BOARDS["trec-dl"].depths}
    assert list(depths.values()) == [100, 1000, 1000] and depths["[0-9]+"] == 1000
    assert [rows for _, rows in BOARDS["trec-car"].depths] == [1000]


def qrels_of(*rows):
    columns = list(zip(*rows, strict=True))
    return pa.table([*columns[:2], pa.array(columns[2], pa.int32())], schema=schema.QRELS)


def test_the_scripts_measure_by_hand():
    qrels = qrels_of(("1", "a", 1), ("2", "b", 0), ("3", "c", 1), ("1", "z", 1))
    rankings = {"2": ["x", "b"], "1": ["x", "y", "a", "z"], "8": ["a"]}
    # Grades are not looked at, query 3 counts 0, query 8 is passed over.
    for cutoff, total in ((1, 0.0), (2, 1 / 2), (3, 1 / 2 + 1 / 3), (10, 1 / 2 + 1 / 3)):
        assert reciprocal_rank(rankings, qrels, cutoff=cutoff) == (total / 3, 3)


def test_the_scripts_measure_is_ir_measures_reciprocal_rank():
    rng = np.random.default_rng(0)
    rankings = {str(q): [str(p) for p in rng.permutation(60)[:40]] for q in range(50)}
    judged = [(str(q), str(rng.integers(60)), 1) for q in range(55) for _ in range(2)]
    judged = list(dict.fromkeys(judged))
    value, num = reciprocal_rank(rankings, qrels_of(*judged), cutoff=10)
    as_qrels = [ir_measures.Qrel(*row) for row in judged]
    scored = [
        ir_measures.ScoredDoc(query, passage, -float(rank))
        for query, passages in rankings.items()
        for rank, passage in enumerate(passages)
    ]
    expected = ir_measures.calc_aggregate([ir_measures.RR @ 10], as_qrels, scored)
    assert num == 55 and value == pytest.approx(expected[ir_measures.RR @ 10], abs=1e-12)


def test_rows_are_filled_from_the_earlier_run_alone():
    own = {"1": ["a", "b"], "2": ["a", "b", "c"]}
    earlier = {"1": ["b", "x", "y", "z"], "3": ["q"]}
    found = fill(own, earlier, queries=["3", "1", "2", "4"], depth=3)
    assert found.rankings == {"3": ["q"], "1": ["a", "b", "x"], "2": ["a", "b", "c"]}
    assert (found.num_queries, found.num_rows) == (2, 2)


def test_rows_below_are_those_of_the_earlier_run_that_the_query_lacks():
    own = {"1": ["a", "b"], "2": ["a"], "9": ["z"]}
    earlier = {"1": ["x"], "2": ["b", "a", "c"], "3": ["d", "e", "f"]}
    found = fill(own, earlier, queries=["2", "1", "3", "4"], depth=2)
    assert found == Filled({"2": ["a", "b"], "1": ["a", "b"], "3": ["d", "e"]}, 2, 3)
    assert fill(own, earlier, queries=["1", "2"], depth=None) == Filled(
        {"1": ["a", "b"], "2": ["a"]}, 0, 0
    )
    assert fill({}, {}, queries=["1"], depth=3) == Filled({}, 0, 0)
