"""Nothing of an evaluation is trained on; what only shares a passage is."""

import pytest

from raypipe.training.examples.guard import Dropped, Guard, normalised, refused_queries


def refused(texts, evaluation):
    dropped = Dropped()
    return refused_queries(texts, Guard(queries=tuple(evaluation)), dropped), dropped


def test_the_same_query_in_other_case_and_spacing_is_refused():
    found, dropped = refused(["What is  BM25?", "what is a fox"], ["what is bm25"])
    assert found == {0}
    assert (dropped.same_query, dropped.near_query) == (1, 0)


def test_three_of_five_words_shared_is_a_near_copy_and_less_is_not():
    evaluation = ["alpha beta gamma delta"]
    # {alpha beta gamma} of {alpha beta gamma delta eps}: 3/5 = 0.6; one word fewer: 2/5
    found, dropped = refused(["alpha beta gamma eps", "alpha beta eps zeta"], evaluation)
    assert found == {0}
    assert dropped.near_query == 1
    assert dropped.samples == ["'alpha beta gamma eps' for 'alpha beta gamma delta'"]


def test_every_near_copy_is_found_as_by_comparing_all_with_all():
    import random

    rng = random.Random(7)
    vocabulary = [f"w{n}" for n in range(14)]
    texts = [" ".join(rng.choices(vocabulary, k=rng.randint(1, 7))) for _ in range(300)]
    evaluation = [" ".join(rng.choices(vocabulary, k=rng.randint(1, 7))) for _ in range(60)]

    def near(left, right):
        a, b = set(left.split()), set(right.split())
        return len(a & b) / len(a | b) >= 0.6

    expected = {i for i, text in enumerate(texts) if any(near(text, e) for e in evaluation)}
    found, _ = refused(texts, evaluation)
    assert found == expected
    assert 0 < len(expected) < 300


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("alpha beta gamma", False),  # the same
        ("Alpha, BETA gamma!", False),
        ("alpha beta gamma delta", False),  # 3 of 4
        ("alpha beta gamma delta epsilon", False),  # 3 of 5: exactly 0.6
        ("alpha beta gamma delta epsilon zeta", True),  # 3 of 6
        ("alpha beta", False),  # 2 of 3
        ("alpha", True),  # 1 of 3
        ("beta delta", True),
        ("other words entirely", True),
    ],
)
def test_queries_that_share_six_tenths_of_their_words_are_refused(text, kept):
    dropped = Dropped()
    found = refused_queries(["first of all", text], Guard(("alpha beta gamma", "x y z")), dropped)
    assert found == (set() if kept else {1})
    same = normalised(text) == "alpha beta gamma"
    assert (dropped.same_query, dropped.near_query) == (int(same), int(not kept and not same))


def test_three_samples_of_dropped_queries_are_kept():
    dropped = Dropped()
    texts = [f"alpha beta gamma delta{n}" for n in range(5)]
    assert refused_queries(texts, Guard(("alpha beta gamma",)), dropped) == {0, 1, 2, 3, 4}
    assert len(dropped.samples) == 3 and dropped.near_query == 5
    exact = Dropped()
    assert refused_queries(["alpha beta"], Guard(("alpha beta",)), exact) == {0}
    assert exact.samples == [] and exact.same_query == 1
    assert refused_queries(["alpha"], Guard(), Dropped()) == set()
