"""The rules of score and aggregate stages, each broken alone."""

import pytest

from raypipe.config import load_recipe
from raypipe.kinds.fuse import equal_weights
from raypipe.kinds.score import MonoScore


def recipe(text, mono="k0: 9", duo="k1: 5", total="method: sum"):
    stages = (
        f"  mono:   {{do: score, run: bm25, model: encoder, {mono}}}\n"
        f"  pairs:  {{do: score, run: mono, model: encoder, {duo}}}\n"
        f"  total:  {{do: aggregate, pairs: pairs, {total}}}\n"
    )
    return text.replace("evaluate:", stages + "evaluate:")


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"mono": "k0: 1, score: raw, tail: drop"},
        {"mono": "k0: 1, blend: 2.5"},
        {"duo": "k1: 2"},
        {"duo": "k1: 5, sample: 2, seed: 3", "total": "method: sample, m: 2, seed: 3"},
        {"duo": "k1: 5, sample: 2", "total": "method: sample, m: 2, k1: 5"},
        {"total": "method: sample, m: 4, k1: 3"},
        {"total": "method: max, k1: 5"},
    ],
)
def test_what_breaks_no_rule_is_taken(text, changed):
    assert list(load_recipe(recipe(text, **changed)).stages)[-1] == "total"


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"duo": "k0: 3, k1: 5"}, "pairs.k1"),
        ({"mono": "k0: 9, sample: 2"}, "mono.sample"),
        ({"duo": "k1: 5, score: probability"}, "pairs.score"),
        ({"duo": "k1: 5, blend: 2"}, "pairs.blend"),
        ({"duo": "k1: 1"}, "pairs.k1"),
        ({"total": "method: sample"}, "total.m"),
        ({"total": "method: sum, m: 2"}, "total.m"),
        ({"total": "method: sum, k1: 6"}, "total.k1"),
        ({"duo": "k1: 5, sample: 2"}, "total.method"),
        ({"duo": "k1: 5, sample: 2", "total": "method: sample, m: 1"}, "total.method"),
        ({"duo": "k1: 5, sample: 2", "total": "method: sample, m: 2, seed: 1"}, "total.method"),
        ({"duo": "k1: 5, sample: 2", "total": "method: sample, m: 2, k1: 4"}, "total.method"),
    ],
)
def test_a_broken_rule_is_told_at_its_key_and_nothing_else_is(text, problems, changed, key):
    (problem,) = problems(recipe(text, **changed))
    assert f": stages.{key}: " in problem


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("pairs: pairs", "pairs: mono", "stages.total.pairs: expected an earlier stage"),
        ("run: mono", "run: pairs", "'pairs', the stage itself"),
        ("run: bm25", "run: lucene", "'lucene', which is of kind index"),
        ("bm25, model: encoder", "bm25, model: other", "stages.mono.model: expected a model"),
    ],
)  # fmt: skip
def test_what_stages_read_is_of_the_right_kind(text, problems, old, new, told):
    (problem,) = problems(recipe(text).replace(old, new))
    assert told in problem


def test_a_mono_scores_1000_candidates_and_keeps_what_is_below_by_default(text):
    found = load_recipe(recipe(text, mono="tail: keep")).stages["mono"]
    assert isinstance(found, MonoScore) and (found.k0, found.tail) == (1000, "keep")
    assert (found.seed, found.score) == (0, None)
    total = load_recipe(recipe(text)).stages["total"]
    assert (total.k1, total.seed, total.tail) == (5, 0, "keep")


def test_stages_name_what_they_read_and_weights_sum_to_1(text):
    stages = load_recipe(recipe(text)).stages
    assert {name: stage.inputs for name, stage in stages.items()} == {
        "lucene": (), "embeddings": (), "bm25": ("lucene",), "dense": ("embeddings",),
        "fused": ("bm25", "dense"), "mono": ("bm25",), "pairs": ("mono",), "total": ("pairs",),
    }  # fmt: skip
    assert equal_weights(4) == (0.25,) * 4
