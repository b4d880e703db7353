"""What of a training set's judgements is relevant, what is known, what the guard leaves out."""

import numpy as np
import pytest

from raypipe.config.training import TrainingSet
from raypipe.errors import InputError
from raypipe.training.examples import pair_keys
from raypipe.training.guard import Dropped, Guard
from raypipe.training.judgements import judged_passages

PASSAGES = ["a", "b", "c", "d"]


def rows_of(ids):
    return np.array([PASSAGES.index(each) if each in PASSAGES else -1 for each in ids], np.int64)


@pytest.fixture
def judge(tmp_path):
    def judged(lines, *, refused=(), guard=None, **settings):
        path = tmp_path / "qrels.txt"
        path.write_text("".join(f"{line}\n" for line in lines))
        wanted = TrainingSet(collection="docs", queries="q", qrels=str(path), **settings)
        dropped = Dropped()
        rows = {"q0": 0, "q1": 1}
        found = judged_passages(wanted, rows, rows_of, set(refused), guard or Guard(), dropped)
        return found, dropped

    return judged


LINES = ["q0 0 a 2", "q0 0 b 1", "q0 0 c 0", "q1 0 d 3", "other 0 a 1"]


def test_grades_from_the_lowest_wanted_are_learnt_and_lower_ones_are_no_negatives(judge):
    found, _ = judge(LINES)
    assert found.relevant == {0: [0, 1], 1: [3]} and found.grades == {1: 1, 2: 1, 3: 1}
    assert found.unknown == {"other"}
    found, _ = judge(LINES, min_grade=2)
    assert found.relevant == {0: [0], 1: [3]}
    assert found.known == {0: {0, 1}, 1: {3}}  # b is neither; c, of grade 0, may be a negative
    pairs = [pair_keys(np.array(q), np.array(p)) for q, p in ((0, 0), (0, 1), (1, 3))]
    assert found.pairs().tolist() == [int(pair) for pair in pairs]


def test_what_the_guard_refuses_and_leaves_out_is_counted(judge):
    guard = Guard(left_out=frozenset("b"), shared=frozenset("ad"))
    found, dropped = judge(LINES, guard=guard)
    assert found.relevant == {0: [0], 1: [3]}
    assert (dropped.left_out_positive, dropped.shared_passages) == (1, 2)
    found, dropped = judge(LINES, guard=guard, refused=[1])
    assert found.relevant == {0: [0]}
    assert dropped.shared_passages == 1


def test_judged_passages_that_are_nowhere_are_told(judge):
    with pytest.raises(InputError, match="2 passage ids are not in the collection docs, first x"):
        judge(["q0 0 a 1", "q0 0 x 1", "q1 0 y 1"])
