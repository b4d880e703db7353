"""Examples drawn from judgements and runs."""

from dataclasses import replace

import numpy as np
import pytest
from rankings import ranking

from raypipe.config.training import Negatives
from raypipe.training.examples import NO_RUN, map_examples, pair_keys, write_examples
from raypipe.training.negatives import Short, drawn_examples

RUN = ranking(*[(0, p, r, 1 / r) for r, p in enumerate([5, 6, 7, 8, 9], start=1)], (1, 6, 1, 1.0))


def draw(relevant, known=None, runs=(RUN,), teacher=None, seed=1, **window):
    short = Short()
    window = Negatives(
        **{"runs": ("run",), "first": 1, "last": 10, "per_example": 1, "examples": 1, **window}
    )
    known = {q: set(p) for q, p in relevant.items()} if known is None else known
    found = drawn_examples(relevant, known, runs, teacher, window, seed=seed, short=short)
    return found, short


def test_negatives_come_from_the_window_and_are_never_known_as_relevant():
    for seed in range(20):
        found, _ = draw({0: [6]}, {0: {6, 8}}, first=2, last=4, examples=1, seed=seed)
        assert found.passage_rows.tolist() == [[6, 7]]  # ranks 2 to 4 are 6, 7, 8


def test_each_negative_keeps_its_run_and_rank():
    other = ranking((0, 20, 3, 0.5), (0, 7, 9, 0.1))
    found, _ = draw({0: [5]}, runs=(RUN, other), per_example=5)
    origins = zip(found.runs[0], found.ranks[0], strict=True)
    places = dict(zip(found.passage_rows[0], origins, strict=True))
    assert places[5] == (NO_RUN, 0)
    assert places[7] == (0, 3)  # in both: the first run's rank
    assert places[20] == (1, 3)


def test_several_examples_of_one_passage_have_other_negatives():
    found, short = draw({0: [5]}, examples=3)
    negatives = found.passage_rows[:, 1].tolist()
    assert len(set(negatives)) == 3
    assert short.without_negatives == 0
    found, short = draw({0: [5]}, examples=9)
    assert found.num_examples == 4 and short.without_negatives == 1


def test_a_draw_depends_on_seed_and_query_alone():
    alone, _ = draw({0: [5]}, seed=4)
    both, _ = draw({0: [5], 1: [9]}, seed=4)
    assert both.passage_rows[0].tolist() == alone.passage_rows[0].tolist()
    others = {draw({0: [5]}, seed=s)[0].passage_rows[0, 1].item() for s in range(30)}
    assert others == {6, 7, 8, 9}


def test_teacher_scores_stand_beside_their_passages_and_filter_what_they_put_above():
    teacher = ranking((0, 5, 1, 2.0), (0, 6, 2, 1.9), (0, 7, 3, 3.5), (0, 8, 4, 2.4))
    found, short = draw({0: [5]}, teacher=teacher, examples=9, above_teacher=0.5)
    negatives = found.passage_rows[:, 1].tolist()
    scores = dict(zip(negatives, found.teacher[:, 1].tolist(), strict=True))
    assert scores == {6: pytest.approx(1.9), 8: pytest.approx(2.4)}  # 7 is above, 9 unscored
    assert found.teacher[:, 0].tolist() == [2.0, 2.0]
    assert short.filtered == 1
    _, short = draw({0: [9]}, teacher=teacher)
    assert short.without_teacher == 1


def test_only_relevant_passages_that_a_run_has_far_enough_up_are_learnt():
    other = ranking((0, 20, 2, 0.5), (0, 8, 1, 0.9))
    relevant = {0: [6, 7, 8, 9, 30], 1: [9]}
    found, short = draw(relevant, runs=(RUN, other), relevant_last=2)
    # 6 is the first run's second, 8 the second run's first; 7 and 9 are lower, 30 nowhere.
    assert found.passage_rows[:, 0].tolist() == [6, 8]
    assert set(found.passage_rows[:, 1].tolist()) <= {5, 20}  # those left out are no negatives
    assert short.beyond_runs == 4
    assert draw(relevant, runs=(RUN, other))[0].num_examples == 6


def test_what_is_written_is_mapped_again(tmp_path):
    found, _ = draw({0: [5], 1: [9]})
    found = replace(found, relevant=pair_keys(np.array([0, 1]), np.array([5, 9])))
    write_examples(tmp_path / "e.safetensors", found)
    again = map_examples(tmp_path / "e.safetensors")
    assert again.passage_rows.tolist() == found.passage_rows.tolist()
    assert again.teacher is None
    known = again.are_relevant(np.array([0, 0, 1]), np.array([5, 6, 9]))
    assert known.tolist() == [True, False, True]


def test_a_run_may_begin_with_any_query_and_examples_name_their_own():
    later = ranking((1, 5, 1, 1.0), (1, 6, 2, 0.5), (3, 7, 1, 1.0), (3, 8, 2, 0.5))
    found, _ = draw({1: [5], 3: [8], 2: [9]}, runs=(later,))
    assert found.query_rows.tolist() == [1, 3]
    assert found.passage_rows.tolist() == [[5, 6], [8, 7]]
