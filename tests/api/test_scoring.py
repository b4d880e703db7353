import numpy as np
import pyarrow as pa
import pytest

import raypipe
from raypipe import schema
from raypipe.errors import InputError, RowsFailed
from raypipe.storage.payloads import read_table


def kept_scores(stored, name):
    """(query row, passage row, other row) -> score of a pipeline's table of scores."""
    store = stored(name)
    tables = [read_table(store.path(r), schema.SCORES) for r in store.manifest.records]
    rows = pa.concat_tables(tables).to_pylist()
    return {(r["query_row"], r["passage_row"], r["other_row"]): r["score"] for r in rows}


def test_scores_of_a_run_are_those_that_the_mono_stage_stores(
    passages, queries, tiny_mono, made, stored
):
    kept = kept_scores(stored, "scores@mono.test")
    dense = made.runs["test"]["dense"]
    found = raypipe.score(dense, queries, passages, tiny_mono, k=12)
    assert found.column_names == ["query_id", "passage_id", "score"]
    query_rows, rows = list(queries), list(passages)
    assert {
        (query_rows.index(r["query_id"]), rows.index(r["passage_id"]), -1): r["score"]
        for r in found.to_pylist()
    } == kept
    assert len(kept) == 3 * 12


def test_pairs_of_a_run_are_those_that_the_duo_stage_stores(
    passages, queries, tiny_duo, made, stored
):
    kept = kept_scores(stored, "duo.test")
    found = raypipe.score(made.runs["test"]["mono"], queries, passages, tiny_duo, k=5)
    assert found.column_names == ["query_id", "passage_id", "other_id", "probability"]
    query_rows, rows = list(queries), list(passages)
    assert {
        (
            query_rows.index(r["query_id"]),
            rows.index(r["passage_id"]),
            rows.index(r["other_id"]),
        ): r["probability"]
        for r in found.to_pylist()
    } == kept
    assert len(kept) == 3 * 5 * 4


def test_a_tuple_has_the_score_of_its_texts_in_a_run(passages, queries, tiny_mono, tiny_duo):
    run = {"q1": dict.fromkeys(list(passages)[:4], 1.0)}
    table = raypipe.score(run, queries, passages, tiny_mono).to_pylist()
    tuples = [(queries[r["query_id"]], passages[r["passage_id"]]) for r in table]
    found = raypipe.score(tuples, model=tiny_mono)
    assert found.dtype == np.float32
    assert found.tolist() == [r["score"] for r in table]
    table = raypipe.score(run, queries, passages, tiny_duo, k=3).to_pylist()
    names = ("passage_id", "other_id")
    tuples = [(queries[r["query_id"]], *(passages[r[n]] for n in names)) for r in table]
    found = raypipe.score(tuples[::-1], model=str(tiny_duo))
    assert found.tolist() == [r["probability"] for r in table][::-1]


def test_candidates_stand_by_query_and_place_of_the_passage(tiny_mono):
    run = {"q": {"b": 2.0, "a": 1.0}, "p": {"c": 1.0}}
    texts = {"c": "the lease", "b": "a zebra", "a": "a rank", "unused": "of"}
    found = raypipe.score(run, {"p": "run", "q": "of"}, texts, tiny_mono)
    lines = [(r["query_id"], r["passage_id"]) for r in found.to_pylist()]
    assert lines == [("p", "c"), ("q", "b"), ("q", "a")]


def test_k_counts_candidates_of_a_query(tiny_mono, tiny_duo):
    run = {"q": {"b": 2.0, "a": 1.0, "c": 0.5}}
    texts = ({"q": "of"}, {"a": "a zebra", "b": "a rank", "c": "run"})
    found = raypipe.score(run, *texts, tiny_mono, k=2)
    assert found["passage_id"].to_pylist() == ["a", "b"]
    assert raypipe.score(run, *texts, tiny_duo, k=2).num_rows == 2
    assert raypipe.score(run, *texts, tiny_duo).num_rows == 6


def test_no_candidate_has_no_score(tiny_mono, tiny_duo):
    assert raypipe.score([], model=tiny_mono).shape == (0,)
    assert raypipe.score([], model=tiny_duo).dtype == np.float32
    assert raypipe.score({}, [], [], tiny_mono).num_rows == 0
    assert raypipe.score({}, ["a"], ["b"], tiny_duo).column_names[2] == "other_id"


def test_tuples_that_do_not_fit_the_model_are_refused(tiny_mono, tiny_duo, tiny_model):
    cases = [
        ([("q", "a", "b")], tiny_mono, r"candidate 0: expected \(query, passage\) for the mono"),
        ([("q", "a")], tiny_duo, r"candidate 0: expected \(query, passage i, passage j\) for the"),
        ([("q", "a"), "qa"], tiny_mono, "candidate 1: expected"),
        ("q", tiny_mono, "found str; expected a list of tuples of texts"),
        ({"q": {"a": 1.0}}, tiny_mono, "or a run with its queries and passages"),
        ([("q", None)], tiny_mono, "expected a text, found NoneType"),
        ([("q", "a"), ("q", ["a"])], tiny_mono, "passage 1 .*: expected a text, found list"),
        ([("q", "a")], tiny_model, "expected a monoBERT or duoBERT model, found kind encoder"),
    ]
    for tuples, model, told in cases:
        with pytest.raises(InputError, match=told):
            raypipe.score(tuples, model=model)


def test_a_run_of_other_texts_is_refused(tiny_mono):
    run = {"q": {"a": 1.0, "zz": 2.0}, "r": {"a": 1.0}}
    with pytest.raises(InputError) as refused:
        raypipe.score(run, {"q": "of"}, {"a": "run"}, tiny_mono)
    assert refused.value.problems == [
        "run: 1 query ids are not among the queries given, first r; give the queries that the run "
        "was made for",
        "run: 1 passage ids are not among the passages given, first zz; give the passages that "
        "the run was made for",
    ]
    with pytest.raises(InputError, match="a run needs queries and passages"):
        raypipe.score(run, {"q": "of"}, model=tiny_mono)
    with pytest.raises(InputError, match="k: expected a whole number from 1; found 0"):
        raypipe.score(run, {"q": "of", "r": "of"}, {"a": "run", "zz": "of"}, tiny_mono, k=0)


def test_a_passage_that_is_only_second_in_pairs_is_read(tiny_duo):
    both = raypipe.score([("q", "run", "of"), ("q", "of", "run")], model=tiny_duo)
    alone = [
        raypipe.score([("q", *pair)], model=tiny_duo) for pair in (("run", "of"), ("of", "run"))
    ]
    assert np.concatenate(alone).tobytes() == both.tobytes()


def test_scores_that_are_not_finite_are_named(tiny_mono, monkeypatch):
    from raypipe.stages import in_memory

    scores = np.array([0, np.nan], np.float32)
    monkeypatch.setattr(in_memory.Scorer, "score", lambda *texts, **settings: scores)
    with pytest.raises(RowsFailed) as failed:
        raypipe.score([("q", "a"), ("q", "b")], model=tiny_mono)
    assert failed.value.rows == (1,)


def test_a_models_own_precision_that_the_machine_does_not_compute_is_refused(
    tiny, tmp_path, monkeypatch
):
    import torch

    mono = tiny.make_tiny_reranker(tmp_path / "mono", precision="int8")
    encoder = tiny.make_tiny_bert(tmp_path / "encoder", precision="bf16")
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    told = r"the settings of .*: precision: {}: expected one of fp32, in which this CPU"
    with pytest.raises(InputError, match=told.format("int8")):
        raypipe.score([("rank", "a zebra")], model=mono, device="cpu")
    with pytest.raises(InputError, match=told.format("bf16")):
        raypipe.encode(["rank"], encoder, device="cpu")
