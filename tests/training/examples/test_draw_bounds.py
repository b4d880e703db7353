from rankings import ranking

from raypipe.config.training import Negatives
from raypipe.training.negatives import Short, drawn_examples

RUN = ranking((0, 5, 1, 0.9), (0, 6, 2, 0.8), (0, 7, 3, 0.7), (2, 8, 1, 0.5), (2, 9, 2, 0.4))


def draw(relevant, known, teacher=None, **window):
    short = Short()
    given = Negatives(
        **{"runs": ("run",), "first": 1, "last": 3, "per_example": 1, "examples": 1, **window}
    )
    return drawn_examples(relevant, known, (RUN,), teacher, given, seed=1, short=short), short


def test_counts_of_what_could_not_be_drawn():
    found, short = draw({0: [6], 1: [3], 2: [8]}, {0: {6}, 2: {8, 9}}, per_example=2)
    assert found.passage_rows[:, 0].tolist() == [6]
    assert sorted(found.passage_rows[0].tolist()[1:]) == [5, 7]
    assert found.ranks[0, 0] == 0 and sorted(found.ranks[0, 1:].tolist()) == [1, 3]
    assert short == Short(without_negatives=2)
    none, short = draw({0: [6]}, {0: {6}}, per_example=3)
    assert none.passage_rows.shape == (0, 4) and none.num_examples == 0
    assert short.without_negatives == 1


def test_a_negative_exactly_as_far_above_the_relevant_passage_as_allowed_stays():
    teacher = ranking((0, 6, 1, 1.0), (0, 5, 2, 1.5), (0, 7, 3, 1.75))
    found, short = draw({0: [6]}, {0: {6}}, teacher, above_teacher=0.5, examples=5)
    assert found.passage_rows[:, 1].tolist() == [5] and short.filtered == 1
    found, short = draw({0: [6]}, {0: {6}}, teacher, above_teacher=-1.0)
    assert found.num_examples == 0 and short.filtered == 2 and short.without_negatives == 1
    few = ranking((0, 6, 1, 1.0), (0, 5, 2, 0.5))
    found, short = draw({0: [6]}, {0: {6}}, few, examples=5)
    assert found.teacher.tolist() == [[1.0, 0.5]] and short.negatives_without_teacher == 1
