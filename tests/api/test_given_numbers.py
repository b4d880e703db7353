"""Numbers that a notebook gives, wrong ones refused by name."""

import math
from pathlib import Path

import numpy as np
import pytest

import raypipe
from raypipe.api.inputs import count_of, number_of
from raypipe.api.workspace import load
from raypipe.errors import InputError, shown

RUN = {"q": {"a": 2.0, "b": 1.0}}


@pytest.mark.parametrize("value", [1, 7, np.int64(7), np.uint8(1)])
def test_a_whole_number_from_1_is_a_count_whoever_made_it(value):
    assert count_of("k", value) == value and type(count_of("k", value)) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, np.float32(2)])
def test_what_is_no_count_is_refused(value):
    with pytest.raises(InputError, match="k: expected a whole number from 1; found"):
        count_of("k", value)


def test_numbers_within_their_bounds_are_floats():
    assert [number_of("b", v, low=0, high=1) for v in (0, 1, 0.5, np.float32(0.25))] == [
        0,
        1,
        0.5,
        0.25,
    ]
    assert type(number_of("k", np.int64(3))) is float


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, None, "3", True, 10**400])
def test_what_is_no_number_within_them_is_refused(value):
    with pytest.raises(InputError, match="b: expected a finite number from 0 to 1; found"):
        number_of("b", value, low=0, high=1)


def test_a_number_too_long_to_print_is_cut():
    assert shown(10**100).endswith("...") and len(shown(10**100)) == 63
    assert shown(10**5000) == "a number of thousands of digits"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: raypipe.fuse([RUN, RUN], k="3"), "k: expected a finite number from 0"),
        (lambda: raypipe.fuse([RUN, RUN], "weighted", weights=["a", "b"]), "weights: number 1"),
        (lambda: raypipe.fuse([RUN, RUN], "weighted", weights="ab"), "weights: expected a list"),
        (lambda: raypipe.fuse([RUN, RUN], "weighted", weights=3), "weights: expected a list"),
        (lambda: raypipe.fuse(None), "runs: found NoneType; expected a list of runs"),
        (lambda: raypipe.fuse([{"q": {"a": 10**400}}, RUN]), "query 'q', passage 'a'"),
        (lambda: raypipe.evaluate(RUN, {"q": {"a": 10**400}}), "is beyond 1,000,000"),
        (lambda: raypipe.evaluate(RUN, {"q": {"a": 1}}, None), "measures: expected a list"),
        (lambda: raypipe.evaluate(RUN, {"q": {"a": 1}}, [3]), "measures: expected a list"),
        (lambda: raypipe.search(["x"], ["y"], "bm25", k1=None), "k1: expected a finite number"),
        (lambda: raypipe.search(["x"], ["y"], "bm25", b=1.5), "b: expected .* from 0 to 1"),
        (lambda: raypipe.run("quickstart", overrides=["a=3"]), "overrides: expected a dictionary"),
    ],
)
def test_a_wrong_argument_is_named_and_no_other_error_is_raised(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_a_recipe_of_paths_and_numpy_numbers_is_taken():
    recipe = {
        "format": np.int64(1),
        "name": "x",
        "collection": {"format": "msmarco-v1", "input": Path("/c.tsv")},
        "models": {"m": {"path": Path("/models/m")}},
        "stages": {"i": {"do": "index"}, "s": {"do": "search", "index": "i", "depth": np.int32(7)}},
        "queries": {"q": {"file": Path("/q.tsv")}},
    }
    found = load(recipe)
    assert (found.models["m"].path, found.stages["s"].depth) == ("/models/m", 7)
    assert found.collection.input == ("/c.tsv",)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: raypipe.compare({1: RUN, 2: RUN}, {"q": {"a": 1}}, "RR@10"), "names that are"),
        (lambda: raypipe.compare({"a": RUN, "b": RUN}, {"q": {"a": 1}}, seed="x"), "seed: "),
        (lambda: raypipe.compare({"a": RUN, "b": RUN}, {"q": {"a": 1}}, seed=-1), "seed: "),
        (lambda: raypipe.search({"x", "y"}, ["y"]), "query texts: found set"),
        (lambda: raypipe.write_run(RUN, "x.trec", tag=None), "tag: expected one word"),
        (lambda: raypipe.read_run(None), "path: expected the path of a run file"),
        (lambda: raypipe.write_run(RUN, 3), "path: expected the path of a run file"),
        (lambda: raypipe.rerank(RUN, scores=RUN, method="max"), "method: found 'max', for pairs"),
        (lambda: raypipe.rerank(RUN, scores=RUN, method="sample"), "method: expected one of sum,"),
    ],
)
def test_what_would_be_ignored_or_made_up_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_one_candidate_makes_no_pair(tiny_duo):
    with pytest.raises(InputError, match="k: one candidate makes no pair"):
        raypipe.rerank(RUN, {"q": "x"}, {"a": "y", "b": "z"}, model=tiny_duo, k=1)


def test_bounds_that_there_are_not_are_not_named():
    with pytest.raises(InputError, match="b: expected a finite number; found 'x'"):
        number_of("b", "x")
