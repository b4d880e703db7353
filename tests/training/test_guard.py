"""Nothing of an evaluation is trained on; what only shares a passage is."""

from types import SimpleNamespace

import pytest

from raypipe.errors import InputError
from raypipe.training.guard import (
    Dropped,
    Guard,
    guards_of,
    lines_about,
    normalised,
    refused_queries,
)


def refused(texts, evaluation, near_copy=0.6):
    dropped = Dropped()
    guard = Guard(queries=tuple(evaluation), near_copy=near_copy)
    return refused_queries(texts, guard, dropped), dropped


@pytest.mark.parametrize("near_copy", [None, 0.6, 1.0])
def test_the_same_query_in_other_case_and_spacing_is_refused(near_copy):
    found, dropped = refused(["What is  BM25?", "what is a fox"], ["what is bm25"], near_copy)
    assert found == {0}
    assert (dropped.same_query, dropped.near_query, dropped.samples) == (1, 0, [])


def test_three_of_five_words_shared_is_a_near_copy_and_less_is_not():
    # All words but the filling ones are in one training query or in none.
    found, dropped = refused(["alpha beta gamma eps", "fill"], ["alpha beta gamma delta"])
    assert found == {0} and dropped.near_query == 1
    assert dropped.samples == [
        "dropped at 0.60: 'alpha beta gamma eps' for 'alpha beta gamma delta'"
    ]
    found, dropped = refused(["alpha beta eps zeta", "fill"], ["alpha beta gamma delta"])
    assert (found, dropped.near_query, dropped.samples) == (set(), 0, [])


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
    found, dropped = refused(["first of all", text], ["alpha beta gamma", "x y z"])
    assert found == (set() if kept else {1})
    same = normalised(text) == "alpha beta gamma"
    assert (dropped.same_query, dropped.near_query) == (int(same), int(not kept and not same))


@pytest.mark.parametrize(
    ("text", "evaluation"),
    [
        ("北京的首都机场", "北京首都机场"),  # 6 of 7 characters
        ("ラーメンの作りかた", "ラーメンの作り方"),
        ("แมวกินปลา", "แมวกินปลาทู"),
        ("BM25是什么", "什么是BM25?"),  # all of them, in another order
    ],
)
def test_queries_of_scripts_without_blanks_are_compared_by_characters(text, evaluation):
    found, dropped = refused(["first of all", text, "天气好"], [evaluation])
    assert found == {1} and dropped.near_query == 1


def test_the_threshold_is_a_setting_and_without_one_only_the_same_text_is_refused():
    texts, evaluation = ["alpha beta gamma delta", "Alpha beta, gamma"], ["alpha beta gamma"]
    # alpha, beta and gamma are in both texts, delta in one: 3 log 2 of 3 log 2 + log 3 is 0.654.
    assert refused(texts, evaluation, 0.65)[0] == {0, 1}
    assert refused(texts, evaluation, 0.66)[0] == {1}
    assert refused(texts, evaluation, None)[0] == {1}
    assert refused(["alpha"], [])[0] == set()


def test_three_queries_on_each_side_of_the_border_are_shown():
    # Every word is in one training query at most, so the similarity is the share of 20 words.
    evaluation = [" ".join(f"q{n}w{m}" for m in range(20)) for n in range(10)]
    texts = [" ".join(query.split()[: 9 + n]) for n, query in enumerate(evaluation)]
    found, dropped = refused(texts, evaluation)
    assert found == {3, 4, 5, 6, 7, 8, 9} and dropped.near_query == 7
    assert [sample.split(": ")[0] for sample in dropped.samples] == [
        "dropped at 0.60", "dropped at 0.65", "dropped at 0.70", "kept at 0.55", "kept at 0.50",
    ]  # fmt: skip
    assert f"{texts[3]!r} for {evaluation[3]!r}" in dropped.samples[0]
    texts = [" ".join(query.split()[:11]) for query in evaluation]
    found, dropped = refused(texts, evaluation)
    assert found == set() and len(dropped.samples) == 3


def test_the_lines_say_the_threshold_only_where_there_is_one():
    _, dropped = refused(["alpha beta gamma eps", "fill"], ["alpha beta gamma delta"])
    first, *_, last = dropped.lines("docs")
    assert "1 with a similarity of 0.6 or more to one, and with them" in first
    assert last.startswith("guard: docs: dropped at 0.60: ")
    _, dropped = refused(["alpha", "beta"], ["alpha"], None)
    first, _ = dropped.lines("docs")
    assert first == (
        "guard: docs: dropped 1 training queries that are evaluation queries, and with them every "
        "evaluation pair"
    )


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
    of_grades = {**facts, "short": short, "grades": {"1": 1200, "3": 5}}
    graded = (
        "train: docs: learnt as relevant: 1,200 of grade 1, 5 of grade 3; min_grade is the lowest"
    )
    assert lines_about("docs", of_grades) == [first, graded, *guards]
    unknown = {**of_grades, "grades": {"1": 1200}, "unknown_queries": 7}
    of_others = "train: docs: left out judgements of 7 queries that are not in its queries"
    assert lines_about("docs", unknown) == [first, of_others, *guards]
    assert lines_about("docs", {**unknown, "unknown_queries": 0}) == [first, *guards]
    assert lines_about("docs", {**facts, "short": lists})[0].endswith(
        "; left out: 2 unlabelled lists of queries with too few passages, "
        "5 passages without a teacher's score"
    )
    assert "(2 triples)" in told[1] and "left out 1 judged passages" in told[3]
    assert told[4] == "guard: docs: 'a' for 'b'"
