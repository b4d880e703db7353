import numpy as np
import pyarrow as pa
import pytest

import raypipe
from raypipe.errors import InputError, RowsFailed

TEXTS = ["the lease of a shard", "a zebra runs", "rank of the run", "a zebra runs", "wax"]
QUERY = "what is a zebra"


@pytest.fixture(scope="module")
def mono(tiny_mono):
    return raypipe.open_reranker(tiny_mono, device="cpu")


@pytest.fixture(scope="module")
def duo(tiny_duo):
    return raypipe.open_reranker(str(tiny_duo))


def test_texts_have_the_scores_of_score_by_score_then_index(mono, tiny_mono):
    scores = raypipe.score([(QUERY, text) for text in TEXTS], model=tiny_mono).tolist()
    assert scores[1] == scores[3]
    wanted = sorted(range(5), key=lambda at: (-scores[at], at))
    found = mono.rank(QUERY, TEXTS)
    assert found == [(at, scores[at], TEXTS[at]) for at in wanted]
    assert [each.index for each in found] == wanted
    assert (found[0].score, found[0].text) == (max(scores), TEXTS[wanted[0]])


def test_it_is_the_run_of_a_pipeline(mono, passages, queries, made):
    """Of its mono stage, whose candidates of a query are given here by their rows."""
    run = made.runs["test"]["mono"].to_pylist()
    ids = list(passages)
    for query_id, query in queries.items():
        lines = [r for r in run if r["query_id"] == query_id][:12]
        rows = sorted(ids.index(r["passage_id"]) for r in lines)
        found = mono.rank(query, [passages[ids[row]] for row in rows])
        assert [(ids[rows[each.index]], each.score) for each in found] == [
            (r["passage_id"], r["score"]) for r in lines
        ]


@pytest.mark.parametrize("method", [None, "sum", "max", "symmetric-sum"])
def test_a_duos_scores_are_the_aggregated_pairs_of_rerank(tiny_duo, method):
    duo = raypipe.open_reranker(tiny_duo, method=method)
    run = {"q": {str(at): -float(at) for at in range(5)}}
    texts = {str(at): text for at, text in enumerate(TEXTS)}
    oracle = raypipe.rerank(run, {"q": QUERY}, texts, tiny_duo, method=method).to_pylist()
    assert [(str(each.index), each.score) for each in duo.rank(QUERY, TEXTS)] == [
        (line["passage_id"], line["score"]) for line in oracle
    ]


def test_the_first_top_k_are_given(mono, duo):
    for reranker in (mono, duo):
        assert reranker.rank(QUERY, TEXTS, top_k=2) == reranker.rank(QUERY, TEXTS)[:2]
    assert len(mono.rank(QUERY, TEXTS, 9)) == 5


def test_texts_are_a_list_an_array_or_a_generator(mono):
    wanted = mono.rank(QUERY, TEXTS)
    for texts in ((text for text in TEXTS), tuple(TEXTS), np.array(TEXTS), pa.array(TEXTS)):
        assert mono.rank(QUERY, texts) == wanted


def test_no_text_and_one_text(mono, duo):
    assert mono.rank(QUERY, []) == duo.rank(QUERY, []) == []
    (alone,) = mono.rank(QUERY, ["wax"], 3)
    assert (alone.index, alone.score) == (0, dict(r[:2] for r in mono.rank(QUERY, TEXTS))[4])
    assert duo.rank(QUERY, ["wax"]) == [(0, 0.0, "wax")]


def test_ten_thousand_texts_are_ranked_by_a_mono_and_refused_by_a_duo(tiny_mono, duo):
    count = 10_000
    found = raypipe.open_reranker(tiny_mono).rank("run", ["wax"] * count, top_k=3)
    assert [each.index for each in found] == [0, 1, 2]
    with pytest.raises(InputError, match=r"10,000, .* score 99,990,000 pairs; expected at most 50"):
        duo.rank("run", ["wax"] * count)
    assert len(duo.rank("run", ["wax"] * 50)) == 50
    with pytest.raises(InputError, match="found 51"):
        duo.rank("run", ["wax"] * 51)


def test_anything_but_a_query_and_texts_is_refused(mono):
    cases = [
        (None, TEXTS, None, "query: expected one text; found NoneType"),
        (["a"], TEXTS, None, "query: expected one text; found list"),
        ("\ud800", TEXTS, None, "query 0 .*not Unicode text"),
        ("a", "wax", None, "texts: found str; expected a list of texts"),
        ("a", None, None, "texts: found NoneType"),
        ("a", {"x": "wax"}, None, "found dict.*`raypipe.rerank` takes a dictionary"),
        ("a", {"wax"}, None, "texts: found set"),
        ("a", pa.table({"passage_id": ["x"], "text": ["wax"]}), None, "texts: found Table"),
        ("a", ["wax", 3, None], None, "passage 1 .*found int(.|\n)*passage 2 .*found NoneType"),
        ("a", TEXTS, 0, "top_k: expected a whole number from 1; found 0"),
    ]
    for query, texts, top_k, told in cases:
        with pytest.raises(InputError, match=told):
            mono.rank(query, texts, top_k)


def test_a_model_or_method_that_does_not_fit_is_refused(tiny_model, tiny_mono, tiny_duo, tmp_path):
    cases = [
        (tiny_model, {}, "expected a monoBERT or duoBERT model, found an encoder"),
        (tiny_mono, {"method": "sum"}, "method: found 'sum', for pairs of a duoBERT model"),
        (tiny_duo, {"method": "sample"}, "method: expected one of sum, .*; found 'sample'"),
        (tmp_path / "none", {}, "no such model folder"),
        (tiny_mono, {"device": "tpu"}, "device: expected one of"),
        (tiny_mono, {"precision": "fp8"}, "precision: expected one of"),
    ]
    for model, options, told in cases:
        with pytest.raises(InputError, match=told):
            raypipe.open_reranker(model, **options)


def test_it_says_its_kind_and_its_model(mono, duo, tiny_mono):
    assert (mono.kind, duo.kind) == ("mono", "duo")
    assert repr(mono) == f"<mono model {tiny_mono}>"


def test_its_files_are_checked_once(mono, monkeypatch):
    """An opened model is not resolved again."""
    import raypipe.models.folder.model_folder as loading

    monkeypatch.setattr(loading, "resolve_model", None)
    assert len(mono.rank(QUERY, TEXTS)) == 5


@pytest.mark.parametrize("kind, once", [("mono", 4), ("duo", 13)])
def test_equal_texts_are_scored_once(mono, duo, kind, once, monkeypatch):
    """The fourth text is the second: 4 of 5 texts differ, and 12 + 1 of their 20 pairs."""
    import raypipe.stages.in_memory as in_memory

    score_texts, counts = in_memory.score_texts, []

    def counted(model, queries, passages, keys, **more):
        counts.append(len(keys[0]))
        return score_texts(model, queries, passages, keys, **more)

    reranker = {"mono": mono, "duo": duo}[kind]
    monkeypatch.setattr(in_memory, "score_texts", counted)
    ranked = reranker.rank(QUERY, TEXTS)
    assert counts == [once]
    scores = {each.index: each.score for each in ranked}
    assert sorted(scores) == [0, 1, 2, 3, 4] and scores[1] == scores[3]


@pytest.mark.parametrize("kind", ["mono", "duo"])
def test_scores_that_are_not_finite_are_told_by_index(kind, tiny, tmp_path):
    broken = tiny.make_tiny_reranker(tmp_path / "broken", kind=kind, seed=3)
    from safetensors.numpy import load_file, save_file

    weights = load_file(broken / "model.safetensors")
    weights["classifier.bias"][:] = np.nan
    save_file(weights, broken / "model.safetensors")
    with pytest.raises(RowsFailed) as failed:
        raypipe.open_reranker(broken).rank(QUERY, TEXTS)
    assert failed.value.rows == (0, 1, 2, 3, 4)
