"""Lists that a teacher alone speaks of."""

import numpy as np
from given_stores import Stores
from rankings import ranking
from training_texts import wanted

from raypipe.config.training import Negatives
from raypipe.training.examples import map_examples
from raypipe.training.examples_stage import ExamplesStage
from raypipe.training.guard import Guard
from raypipe.training.negatives import Short, unlabelled_examples

RUN = ranking(*[(0, p, r, 1 / r) for r, p in enumerate([5, 6, 7, 8, 9, 10], 1)], (1, 6, 1, 1.0))
TEACHER = ranking(*[(0, p, r, p / 10) for r, p in enumerate([6, 7, 8, 9, 10], 1)], (1, 6, 1, 0.5))


def draw(queries, runs=(RUN,), seed=1, **window):
    short = Short()
    window = Negatives(
        **{"runs": ("run",), "first": 1, "last": 10, "per_example": 1, "examples": 2, **window}
    )
    return unlabelled_examples(queries, runs, TEACHER, window, seed=seed, short=short), short


def test_lists_share_no_passage_and_hold_only_what_the_teacher_scored():
    found, short = draw([1, 0])
    assert found.query_rows.tolist() == [0, 0] and found.passage_rows.shape == (2, 2)
    passages = found.passage_rows.reshape(-1).tolist()
    assert len(set(passages)) == 4 and set(passages) <= {6, 7, 8, 9, 10}
    scores = dict(zip(passages, found.teacher.reshape(-1).tolist(), strict=True))
    assert all(score == np.float32(passage / 10) for passage, score in scores.items())
    assert found.ranks.reshape(-1).tolist() == [passage - 4 for passage in passages]
    assert not found.runs.any() and not found.is_judged
    # Query 1 has one passage: both its lists are missing. The teacher does not know passage 5.
    assert (short.lists, short.passages_without_teacher) == (2, 1)


def test_a_list_is_of_the_window_and_its_order_is_drawn_by_seed_and_query():
    found, _ = draw([0], first=3, last=5, per_example=2, examples=1)
    assert sorted(found.passage_rows[0].tolist()) == [7, 8, 9]
    orders = {tuple(draw([0], first=3, last=5, per_example=2, seed=seed)[0].passage_rows[0])
              for seed in range(30)}  # fmt: skip
    assert len(orders) == 6
    more, _ = draw([1, 0], first=3, last=5, per_example=2, examples=1)
    assert more.passage_rows.tolist() == found.passage_rows.tolist()
    other = ranking((0, 9, 3, 1.0), (0, 10, 9, 1.0))
    both, _ = draw([0], runs=(RUN, other), first=3, per_example=3, examples=1)
    places = zip(both.passage_rows[0], both.runs[0], both.ranks[0], strict=True)
    assert {p: (r, n) for p, r, n in places} == {7: (0, 3), 8: (0, 4), 9: (0, 5), 10: (0, 6)}


def test_queries_are_in_order_each_with_a_draw_of_its_own_and_short_ones_are_counted():
    passages = range(5, 45)
    run = ranking(*[(q, p, p - 4, 1.0) for q in (2, 7) for p in passages], (9, 5, 1, 1.0),
                  (9, 6, 2, 1.0), (9, 7, 3, 1.0))  # fmt: skip
    short = Short()
    window = Negatives(runs=("run",), first=1, last=99, per_example=1, examples=5)
    found = unlabelled_examples({9, 7, 2}, [run], run, window, seed=1, short=short)
    assert found.query_rows.tolist() == [2] * 5 + [7] * 5 + [9]
    assert found.passage_rows[:5].tolist() != found.passage_rows[5:10].tolist()
    assert short.lists == 4  # of query 9, which has one list of five
    backwards = unlabelled_examples([9, 7, 2], [run], run, window, seed=1, short=Short())
    assert backwards.query_rows.tolist() == found.query_rows.tolist()


def test_of_a_query_that_is_evaluated_with_there_is_no_list_and_the_teachers_end_is_kept(tmp_path):
    stores = Stores(tmp_path)
    collection = stores.passages(["a", "b", "c", "d"])
    run = stores.run([(q, p, 4.0 - p) for q in range(3) for p in range(4)])
    stage = ExamplesStage(
        wanted=wanted(qrels=None, teacher="t", negatives={"first": 1, "per_example": 2}),
        collection=collection, ids=stores.hashes(collection),
        queries=stores.queries("one", "Two ", "three"), runs=(run,), teacher=run, teacher_last=3,
        guard=Guard(queries=("two",)), seed=0,
    )  # fmt: skip
    stored = stores.finished(stage)
    (record,) = stored.manifest.records
    found = map_examples(stored.path(record))
    assert found.query_rows.tolist() == [0, 2]
    assert [sorted(row) for row in found.passage_rows.tolist()] == [[0, 1, 2]] * 2
    assert np.array_equal(found.teacher, 4 - found.passage_rows)
    facts = record.facts
    assert (facts["rows"], facts["examples"], facts["passages"], facts["queries"]) == (3, 2, 3, 2)
    assert facts["dropped"]["same_query"] == 1
    assert facts["short"]["passages_without_teacher"] == 2
