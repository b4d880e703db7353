from types import SimpleNamespace

import pytest

from raypipe.errors import InputError
from raypipe.training.guard import guards_of, lines_about


def test_guards_hold_judged_queries_of_all_sets_and_passages_of_their_own_collection(tmp_path):
    def file(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    queries = file("q.tsv", "1\tone\n2\ttwo\n3\tthree\n")
    qrels = file("r.txt", "1 0 a 1\n1 0 b 0\n2 0 c 2\n")
    other = file("o.tsv", "7\tseven\n8\tone\n")

    def guarded(**settings):
        given = {"queries": queries, "qrels": qrels, "collection": "x", "leave_out_passages": False}
        return SimpleNamespace(**{**given, **settings})

    recipe = SimpleNamespace(
        dev={"d": guarded()},
        guard={
            "whole": guarded(queries=other, qrels=None),
            "out": guarded(collection="y", leave_out_passages=True),
            "nowhere": guarded(collection=None),
        },
        collections={"x": None, "y": None, "z": None},
        near_copy=0.7,
    )
    found = guards_of(recipe)
    assert {name: guard.queries for name, guard in found.items()} == dict.fromkeys(
        "xyz", ("one", "two", "seven")
    )
    assert (found["x"].shared, found["x"].left_out) == (frozenset("ac"), frozenset())
    assert (found["y"].shared, found["y"].left_out) == (frozenset("ac"), frozenset("abc"))
    assert (found["z"].shared, found["z"].left_out) == (frozenset(), frozenset())
    assert {guard.near_copy for guard in found.values()} == {0.7}
    recipe.near_copy = "same"
    assert {guard.near_copy for guard in guards_of(recipe).values()} == {None}
    recipe.guard = {"bad": guarded(queries=other)}
    recipe.dev = {}
    with pytest.raises(InputError, match="none of its queries is judged"):
        guards_of(recipe)


def test_what_is_lines_about_a_training_set_names_only_what_was_left_out():
    dropped = dict.fromkeys(
        ("same_query", "near_query", "triples", "left_out_negative", "left_out_positive",
         "shared_passages"), 0,
    )  # fmt: skip
    short = dict.fromkeys(
        ("without_negatives", "beyond_runs", "without_teacher", "negatives_without_teacher",
         "filtered"), 0,
    )  # fmt: skip
    facts = {"examples": 1200, "passages": 2, "queries": 30, "dropped": dropped, "samples": []}
    first, *guards = lines_about("docs", {**facts, "short": short})
    assert first == "train: docs: 1,200 examples of 2 passages over 30 queries"
    assert len(guards) == 2
    told = lines_about("docs", {
        **facts, "short": {**short, "filtered": 4, "without_negatives": 3},
        "dropped": {**dropped, "left_out_positive": 1, "triples": 2}, "samples": ["'a' for 'b'"],
    })  # fmt: skip
    assert told[0].endswith(
        "; left out: 3 relevant passages with too few negatives, 4 negatives that the teacher "
        "scores above the relevant passage"
    )
    lists = {**short, "lists": 2, "passages_without_teacher": 5}
    assert lines_about("docs", {**facts, "short": lists})[0].endswith(
        "; left out: 2 unlabelled lists of queries with too few passages, "
        "5 passages without a teacher's score"
    )
    assert "(2 triples)" in told[1] and "left out 1 judged passages" in told[3]
    assert told[4] == "guard: docs: 'a' for 'b'"
