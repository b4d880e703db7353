from itertools import pairwise

import pytest

from raypipe.driver.report.words import WORDS, words_of
from raypipe.names import (
    Role,
    StoreName,
    of_collection,
    of_queries,
    of_stage,
    of_training,
    tokens_of,
)


@pytest.mark.parametrize(
    "name, words",
    [
        (of_stage("dense", "test"), "dense on test"),
        (of_stage("dense", "test", Role.PARTS), "dense on test: in parts"),
        (of_stage("embeddings"), "embeddings"),
        (of_stage("bm25", role=Role.TUNE), "bm25: tuning"),
        (of_collection(Role.IDS), "collection: ids"),
        (of_queries("dev"), "dev: queries"),
        (tokens_of("minilm"), "minilm: word pieces"),
        (of_stage("mono", "dev", Role.SCORES), "mono on dev: scores"),
        (of_training(Role.WEIGHTS, "cip", "first"), "cip, phase first: weights"),
    ],
    ids=str,
)
def test_a_store_is_named_in_words_of_the_recipe(name, words):
    assert words_of(name) == words


def test_every_role_has_words_and_no_two_stores_of_one_owner_the_same():
    assert set(WORDS) == set(Role)
    names = sorted(words_of(StoreName(role, "x", "dev", n)) for role in Role for n in (1, 2))
    assert all(one != other for one, other in pairwise(names))
