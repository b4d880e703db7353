import numpy as np
import pyarrow as pa
import pytest

import raypipe
from raypipe import schema
from raypipe.errors import InputError

RUN = {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}}


def ids(run):
    return run["passage_id"].to_pylist()


def of(*scores):
    """Scores of the run's candidates."""
    return {"q": dict(zip("abcd", scores, strict=True))}


def test_a_monos_run_is_the_pipelines(passages, queries, tiny_mono, made):
    runs = made.runs["test"]
    found = raypipe.rerank(runs["dense"], queries, passages, tiny_mono, k=12)
    assert found.equals(runs["mono"])
    assert not found.equals(runs["dense"])


def test_a_duos_run_is_the_pipelines(passages, queries, tiny_duo, made):
    runs = made.runs["test"]
    found = raypipe.rerank(runs["mono"], queries, passages, tiny_duo, k=5)
    assert found.equals(runs["duo-sum"])
    other = {"k": 5, "method": "min", "tail": "drop"}
    assert raypipe.rerank(runs["mono"], queries, passages, tiny_duo, **other).equals(
        runs["duo-min"]
    )


def test_scores_made_before_give_the_same_run(passages, queries, tiny_mono, tiny_duo, made):
    runs = made.runs["test"]
    scores = raypipe.score(runs["dense"], queries, passages, tiny_mono, k=12)
    found = raypipe.rerank(runs["dense"], passages=passages, scores=scores, k=12)
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, runs["mono"].to_pylist()))
    found = raypipe.rerank(runs["dense"], queries, passages, scores=scores, k=12)
    assert found.equals(runs["mono"])
    pairs = raypipe.score(runs["mono"], queries, passages, tiny_duo, k=5)
    found = raypipe.rerank(runs["mono"], queries, passages, scores=pairs, k=5)
    assert found.equals(runs["duo-sum"])


def test_the_rest_stays_below_in_its_order_with_its_scores():
    scores = {"q": {"a": -3.0, "b": -1.0, "c": -2.0}}
    found = raypipe.rerank(RUN, scores=scores, k=3)
    assert found.schema == schema.RUN_FILE
    assert ids(found) == ["b", "c", "a", "d"]
    assert found["score"].to_pylist() == [-1.0, -2.0, -3.0, 1.0]
    assert found["rank"].to_pylist() == [1, 2, 3, 4]
    assert ids(raypipe.rerank(RUN, scores=scores, k=3, tail="drop")) == ["b", "c", "a"]
    assert ids(raypipe.rerank(RUN, scores=scores, k=1)) == ["a", "b", "c", "d"]


def test_scores_are_a_dictionary_or_a_table():
    wanted = ["d", "b", "c", "a"]
    values = [1.0, 3.0, 2.0, 4.0]
    table = pa.table({"query_id": ["q"] * 4, "passage_id": list("abcd"), "score": values})
    for scores in (
        {"q": dict(zip("abcd", values, strict=True))},
        table,
        table.to_pandas(),
    ):
        assert ids(raypipe.rerank(RUN, scores=scores)) == wanted
    beyond = of(1, 2, np.nan, np.inf)
    assert ids(raypipe.rerank(RUN, scores=beyond, k=2)) == ["b", "a", "c", "d"]


def test_ties_go_by_place_among_the_passages_else_by_id():
    scores = of(0, 0, 0, 0)
    assert ids(raypipe.rerank(RUN, scores=scores)) == ["a", "b", "c", "d"]
    passages = {"c": "", "a": "", "d": "", "b": ""}
    assert ids(raypipe.rerank(RUN, passages=passages, scores=scores)) == ["c", "a", "d", "b"]


def test_scores_of_other_candidates_are_left_out():
    scores = {"q": {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 9.0}, "other": {"a": 1.0}}
    assert ids(raypipe.rerank(RUN, scores=scores)) == ["d", "c", "b", "a"]


def test_an_empty_run_stays_empty(tiny_mono):
    assert raypipe.rerank({}, scores={}).equals(schema.RUN_FILE.empty_table())
    assert raypipe.rerank({}, [], [], tiny_mono).equals(schema.RUN_FILE.empty_table())


def test_pairs_are_aggregated_by_the_method():
    pairs = pa.table(
        {
            "query_id": ["q"] * 2,
            "passage_id": ["a", "b"],
            "other_id": ["b", "a"],
            "probability": [0.25, 0.75],
        }
    )
    found = raypipe.rerank(RUN, scores=pairs, k=2)
    assert ids(found) == ["b", "a", "c", "d"]
    assert found["score"].to_pylist()[:2] == [0.75, 0.25]
    found = raypipe.rerank(RUN, scores=pairs, k=2, method="symmetric-sum")
    assert found["score"].to_pylist()[:2] == [1.5, 0.5]
    with pytest.raises(InputError, match="4 of 6 pairs that sum needs were not scored"):
        raypipe.rerank(RUN, scores=pairs, k=3)


def test_what_cannot_rerank_is_refused():
    for more, told in [
        ({}, "expected scores, or queries and passages to score now"),
        ({"scores": {"q": {"a": 1.0}}}, "scores: 3 of 4 candidates have no score, first (q, b)"),
        ({"scores": np.zeros(4)}, "scores: found ndarray; expected the table that `score`"),
        ({"scores": of(0, np.nan, 0, 0)}, "1 of 4 are not finite"),
        (
            {"scores": [1, 2, 3, 4]},
            "scores: found list; expected the table that `score` returned of a run",
        ),
        *(
            (
                {"scores": {"q": {"a": each}}},
                "scores: query 'q', passage 'a': score: expected a num",
            )
            for each in ("x", "0.5", b"1", True, np.True_, None)
        ),
        ({"scores": of(0, 1e300, 0, 0)}, "1 of 4 are not finite"),
        ({"scores": {"q": {1: 2.0, "1": 3.0}}, "run": {"q": {"1": 0.0}}}, "1 candidates repeated"),
        ({"scores": pa.table({"query_id": ["q"]})}, "scores: expected a column passage_id"),
        (
            {"scores": pa.table({"query_id": ["q"], "passage_id": ["a"], "score": ["1.5"]})},
            "scores: column score: expected numbers; found string",
        ),
        ({"scores": of(0, 0, 0, 0), "k": 0}, "k: expected a whole number from 1; found 0"),
        (
            {"scores": of(0, 0, 0, 0), "tail": "cut"},
            "tail: expected one of keep, drop; found 'cut'",
        ),
        ({"scores": of(0, 0, 0, 0), "method": "mean"}, "method: expected one of sum, binary"),
        ({"scores": of(0, 0, 0, 0), "passages": ["a"]}, "first a, b, c, d; give the passages"),
    ]:
        with pytest.raises(InputError) as refused:
            raypipe.rerank(**{"run": RUN, **more})
        assert told in str(refused.value)


def test_a_blend_is_that_of_the_pipelines_stage(
    passages, queries, tiny_mono, made, recipe, tmp_path
):
    keys = {**recipe, "stages": {**recipe["stages"]}, "stores": str(made.folder / "stores")}
    keys["stages"] = {name: recipe["stages"][name] for name in ("embeddings", "dense", "mono")}
    keys["stages"]["mono"] = {**keys["stages"]["mono"], "blend": 0.1}
    blended = raypipe.run(keys, tmp_path / "work").runs["test"]["mono"]
    dense = made.runs["test"]["dense"]
    found = raypipe.rerank(dense, queries, passages, tiny_mono, k=12, blend=0.1)
    assert found.equals(blended) and not found.equals(made.runs["test"]["mono"])
    none = raypipe.rerank(dense, queries, passages, tiny_mono, k=12, blend=0)
    assert none.equals(made.runs["test"]["mono"])


@pytest.mark.parametrize(
    ("model", "more", "told"),
    [
        ("tiny_mono", {"method": "sum"}, "method: found 'sum', for pairs of a duoBERT model"),
        ("tiny_mono", {"blend": 1e31}, r"blend: expected at most 1e\+30, found 1e\+31"),
        ("tiny_duo", {"blend": 0}, "blend: for a monoBERT model; remove it"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_before_it_scores(
    passages, queries, request, monkeypatch, model, more, told
):
    monkeypatch.delattr("raypipe.stages.in_memory.score_texts")
    run = {"q2": dict.fromkeys(list(passages)[:2], 1.0)}
    with pytest.raises(InputError, match=told):
        raypipe.rerank(run, queries, passages, request.getfixturevalue(model), **more)


def test_a_blend_is_a_number_from_0_of_a_mono_that_scores_now(passages, queries, tiny_duo):
    with pytest.raises(InputError, match="blend: expected a finite number from 0; found -1"):
        raypipe.rerank(RUN, queries, passages, blend=-1)
    for blend in (0, 1):
        with pytest.raises(InputError, match="blend: of a model that scores now, and scores"):
            raypipe.rerank(RUN, scores={"q": {"a": 1.0}}, k=1, blend=blend)
    run = {"q2": dict.fromkeys(list(passages)[:2], 1.0)}
    with pytest.raises(InputError, match="blend: for a monoBERT model; remove it"):
        raypipe.rerank(run, queries, passages, tiny_duo, blend=1)


def test_a_duo_that_scores_now_reorders_the_papers_number_of_candidates(
    passages, queries, tiny_duo, monkeypatch
):
    monkeypatch.setattr("raypipe.api.models.K1", 3)
    run = {"q2": {name: float(-place) for place, name in enumerate(list(passages)[:5])}}
    found = raypipe.rerank(run, queries, passages, tiny_duo)
    assert found.equals(raypipe.rerank(run, queries, passages, tiny_duo, k=3))
    assert found["score"].to_pylist()[3:] == [-3.0, -4.0]
