import pytest

from raypipe.training.examples.guard import Dropped, Guard, normalised, refused_queries


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
