import os

import ir_measures
import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.leaderboard.boards import BOARDS, SCRIPTS, read_board, reciprocal_rank
from raypipe.leaderboard.submission import Filled, fill


def test_boards_take_what_their_scripts_and_guidelines_say():
    passage, document = BOARDS["msmarco-passage"], BOARDS["msmarco-doc"]
    # MS MARCO passage: 8,841,823 passages, 6,980 dev and 6,837 eval queries, MRR@10 of 1,000 rows.
    assert (passage.num_passages, passage.depths) == (8_841_823, {"[0-9]+": 1000})
    assert (passage.measures, document.measures) == (["MRR @10"], ["MRR @100"])
    assert passage.query_sets == {"dev": 6980, "eval": 6837}
    # Documents: 5,193 dev and 5,793 eval queries, MRR@100 of 100 rows.
    assert (document.num_passages, document.depths) == (None, {"D[0-9]+": 100})
    assert document.query_sets == {"dev": 5193, "eval": 5793}
    for board in (passage, document):
        assert board.full_rows and board.facts and board.dated and board.form == "msmarco"
    for name in ("trec-dl", "trec-car", "trec-rag", "browsecomp-plus", "local"):
        board = BOARDS[name]
        assert not board.full_rows and not board.dated
        assert board.form == ("any" if name == "local" else "trec")
    qrels = qrels_of(("1", "a", 1))
    for board, cutoff in ((passage, 10), (document, 100)):
        for rank, value in ((cutoff, 1 / cutoff), (cutoff + 1, 0.0)):
            ranking = {"1": [*map(str, range(rank - 1)), "a"]}
            assert SCRIPTS[board.measures[0]](ranking, qrels) == (value, 1)
    depths = BOARDS["trec-dl"].depths
    assert list(depths.values()) == [100, 1000, 1000] and depths["[0-9]+"] == 1000
    assert list(BOARDS["trec-car"].depths.values()) == [1000]
    years = {task: board.closed for task, board in BOARDS.items() if board.closed}
    closed = {"msmarco-passage": 2022, "msmarco-doc": 2022, "trec-dl": 2023, "trec-car": 2019}
    assert years == closed


WHOLE = """\
depths: {'doc-[0-9]+': 100, 'long-[0-9]+': null}
query_ids: 'q[0-9]+'
query_sets: {eval: 2}
scores: not rising
measures: [nDCG@10, MRR @10]
judgements: [Near, Far]
facts:
  name: mine.json
  fields: {Team: text, Note: any text, Kind: [dense, sparse], Near nDCG@10: figure, Day: date}
closed: 2025
"""


def test_a_task_of_a_users_own_is_the_same_entry_in_a_yaml_file(tmp_path):
    path = tmp_path / "mine-2027.yaml"
    path.write_text(WHOLE)
    board = read_board(path)
    assert board.task == "mine-2027" and board.form == "trec" and board.closed == 2025
    assert board.depths == {"doc-[0-9]+": 100, "long-[0-9]+": None}
    assert board.figures == ["Near nDCG@10", "Near MRR @10", "Far nDCG@10", "Far MRR @10"]
    path.write_text("task: other\n" + WHOLE)
    assert read_board(path).task == "other"


def test_the_packaged_tasks_would_be_read_from_yaml_as_they_are(tmp_path):
    for task, board in BOARDS.items():
        path = tmp_path / f"{task}.yaml"
        path.write_text(board.model_dump_json(exclude_unset=True))
        assert read_board(path) == board


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("closed: 2025", "closd: 2025"), "line 10: closd: unknown key; did you mean closed?"),
        (("doc-[0-9]+", "doc-[0-9+"), "line 1: depths.doc-[0-9+: expected a regular expression"),
        (("100", "0"), "line 1: depths.doc-[0-9]+: expected a number from 1; found 0"),
        (("not rising", "rising"), "line 4: scores: expected 'falling' or 'not rising'; found"),
        (("nDCG@10, MRR", "nDGC@10, MRR"), "line 5: measures: measure 'nDGC@10': unknown"),
        (("Near nDCG@10:", "nDCG@10:"), "line 9: facts.fields.nDCG@10: no measure gives this"),
        (("Day: date", "Day: day"), "line 9: facts.fields.Day: expected text, any text, optional,"),
        (("mine.json", "../mine.json"), "line 8: facts.name: expected"),
        ((WHOLE, "- 1\n"), "line 1: expected a mapping, KEY: VALUE; found a list"),
        ((WHOLE, ""), "line 1: expected a mapping, KEY: VALUE; found nothing"),
    ],
)
def test_each_problem_of_a_users_own_task_is_told_with_its_line(tmp_path, change, told):
    path = tmp_path / "mine.yaml"
    path.write_text(WHOLE.replace(*change))
    with pytest.raises(InputError) as caught:
        read_board(path)
    assert any(problem.startswith(f"{path}: {told}") for problem in caught.value.problems)


def test_a_users_own_task_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(InputError, match="none.yaml: cannot be read"):
        read_board(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"task: \xe9\n")
    with pytest.raises(InputError, match="latin.yaml: cannot be read"):
        read_board(tmp_path / "latin.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="pipe.yaml: expected a file, found a pipe"):
        read_board(tmp_path / "pipe.yaml")


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
