"""The most similar evaluation query: words count by their rarity, compared all with all."""

import math
import random
from collections import Counter

import pytest

from raypipe.training.guard import nearest


def similarity_in(texts):
    """The equation itself, of two texts."""
    sizes = Counter(word for text in texts for word in set(text.split()))

    def weight(words):
        return sum(math.log(1 + len(texts) / max(1, sizes[word])) for word in words)

    def similarity(left, right):
        a, b = set(left.split()), set(right.split())
        return weight(a & b) / weight(a | b)

    return similarity


def test_every_near_copy_is_found_as_by_comparing_all_with_all():
    rng = random.Random(7)
    frequent = [f"w{n}" for n in range(14)]

    def drawn():
        return " ".join(rng.choices(frequent, range(1, 15), k=rng.randint(1, 7)))

    texts, evaluation = [drawn() for _ in range(300)], [drawn() for _ in range(60)]
    found = [*nearest(texts, evaluation, threshold=0.6)]
    similarity, num_near = similarity_in(texts), 0
    for text, near in zip(texts, found, strict=True):
        best = max(similarity(text, each) for each in evaluation)
        if near is None:
            assert best < 0.5 + 1e-3
            continue
        assert near.similarity == pytest.approx(best, abs=1e-3)
        assert similarity(text, near.query) == pytest.approx(best, abs=1e-3)
        num_near += near.similarity >= 0.6
    assert 20 < num_near < 280


def test_what_is_asked_about_decides_and_not_how_a_question_begins():
    texts = [f"where is town{n} tx" for n in range(200)]
    (near, *_) = nearest(texts, ["where is andrews tx"], threshold=0.6)
    assert near is None  # 3 of 5 words, but none that fewer than all texts have
    texts[0] = "andrews tx"
    (near, *_) = nearest(texts, ["where is andrews tx"], threshold=0.6)
    # andrews and tx of where, is (199 of 200 each), andrews (1) and tx (200)
    rare, often, always = (math.log(1 + 200 / n) for n in (1, 199, 200))
    assert near.similarity == pytest.approx((rare + always) / (rare + always + 2 * often), abs=1e-3)
    assert near.query == "where is andrews tx"


def test_of_equally_similar_queries_the_first_counts_and_a_text_without_words_has_none():
    found = [*nearest(["a b c d", "?!"], ["a b c y", "a b c x", "!"], threshold=0.6)]
    assert found == [(0.6, "a b c y"), None]


def test_what_lies_a_tenth_below_the_threshold_is_found_and_no_more():
    texts = ["a b c d e f g h i j"]
    queries = {n: " ".join("abcdefghij"[:n]) for n in (4, 5, 6)}
    for n, query in queries.items():
        (near,) = nearest(texts, [query], threshold=0.6)
        assert near == (None if n == 4 else (n / 10, query))
    assert [*nearest(texts, [], threshold=0.6)] == [None]
