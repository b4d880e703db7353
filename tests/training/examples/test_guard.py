"""Nothing of an evaluation is trained on; what only shares a passage is."""

from raypipe.training.examples.guard import Dropped, Guard, refused_queries


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
