"""Truncated embeddings in a recipe: their values, searches, exports and refusals."""

import numpy as np
import pytest
from given_stores import Stores
from recipes import invoke

from raypipe.api.workspace import open_index
from raypipe.config.load import load_recipe
from raypipe.driver.upkeep.delta import export_delta
from raypipe.driver.upkeep.export import export
from raypipe.errors import InputError, RefusedError, RowsFailed
from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.stage import Site, Sizing
from raypipe.stages.truncate import TruncateStage, truncated
from raypipe.storage.payloads import read_vectors

RECIPE = """
format: 1
name: widths
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.tsv}}}}
models:
  whole: {{path: {model}, settings: {{normalise: {normalise}}}}}
  cut: {{path: {model}, settings: {{normalise: {normalise}, truncate_dim: 8}}}}
stages:
  vectors: {{do: encode, model: whole}}
  small: {{do: truncate, embeddings: vectors, dims: 8}}
  encoded: {{do: encode, model: cut}}
  exact: {{do: search, index: small, depth: 9}}
  lists: {{do: ann, embeddings: small, ivf_pq: {{lists: 2, code_bytes: 2, seed: 3}}}}
  near: {{do: search, index: lists, depth: 9, ann: {{refine: 50, probes: 2}}}}
resources: {{backend: inline, device: cpu, shard_tokens: 200}}
"""
WORDS = "lease shard rank query passage score merge model token batch depth index".split()


def reindex(folder, model, num_passages, normalise="true", *overrides):
    rng = np.random.default_rng(1)
    for name, number in (("passages", num_passages), ("queries", 3)):
        texts = (" ".join(rng.choice(WORDS, 6)) for _ in range(number))
        lines = (f"{name[0]}{row}\t{text}\n" for row, text in enumerate(texts))
        (folder / f"{name}.tsv").write_text("".join(lines))
    text = RECIPE.format(files=folder, model=model, normalise=normalise)
    invoke(text, folder / "work", *overrides, reindex=True)
    return folder / "work"


def numpy_of(work, store, out):
    export(work / "stores" / store, "numpy", out / store)
    return np.load(out / store / "embeddings.npy")


@pytest.mark.slow
@pytest.mark.parametrize("normalise", ["true", "false"])
def test_one_encoding_gives_the_vectors_runs_and_deltas_of_a_narrower_model(
    tmp_path, tiny_model, normalise
):
    work = reindex(tmp_path, tiny_model, 40, normalise)
    small, narrow = (numpy_of(work, name, tmp_path) for name in ("small", "encoded"))
    assert small.shape == (40, 8)
    if normalise == "false":
        assert small.tobytes() == narrow.tobytes()
    np.testing.assert_allclose(small.astype(float), narrow.astype(float), atol=2e-3)
    queries = numpy_of(work, "small.test", tmp_path)
    products = queries.astype(np.float32) @ small.astype(np.float32).T
    runs = {
        name: (work / "runs" / "test" / f"{name}.trec").read_text().splitlines()
        for name in ("exact", "near")
    }
    best = [[f"p{row}" for row in np.argsort(-scores, kind="stable")[:9]] for scores in products]
    for lines in runs.values():
        assert [line.split()[2] for line in lines] == [each for query in best for each in query]
    texts = dict(line.split("\t") for line in (tmp_path / "queries.tsv").read_text().splitlines())
    with open_index(work) as index:
        hits = index.search(texts, stage="small", depth=9)
        assert hits["passage_id"].to_pylist() == [each for query in best for each in query]
    reindex(tmp_path, tiny_model, 41, normalise)
    manifest = export_delta(work / "stores" / "small", 1, tmp_path / "delta")
    assert (manifest["upserts"], manifest["deletes"], manifest["dim"]) == (1, 0, 8)
    reindex(tmp_path, tiny_model, 41, normalise, "stages.small.dims=4")
    with pytest.raises(RefusedError, match="params.dims 8 -> 4"):
        export_delta(work / "stores" / "small", 2, tmp_path / "other")


def test_a_truncated_vector_has_length_1_again_only_if_the_model_says_so():
    vectors = np.array([[0.3, 0.4, 0.866], [0, 0, 1]], np.float16)
    assert truncated(vectors, 2, normalise=False).tolist() == vectors[:, :2].tolist()
    again = truncated(vectors, 2, normalise=True)
    assert again.tolist() == np.array([[0.6, 0.8], [0, 0]], np.float16).tolist()
    assert again.dtype == np.float16


def test_a_row_in_quarantine_stays_there_and_each_row_keeps_its_class(tmp_path, tiny_model):
    arrays = [np.ones((2, 3), np.float16), np.full((3, 3), 2, np.float16)]
    embeddings = Stores(tmp_path).vectors(*arrays, skipped=(3,), classes=["a", "b"])
    model = resolve_model(str(tiny_model))
    stage = TruncateStage(embeddings, 2, model, "passage")
    shards = stage.shards(Sizing())
    run = stage.open(Site(tmp_path)).run
    assert [run(shards[0], (), lambda rows: None).facts["numerics"]] == ["a"]
    with pytest.raises(RowsFailed) as failed:
        run(shards[1], (), lambda rows: None)
    assert failed.value.rows == (3,)
    payload = run(shards[1], (3,), lambda rows: None)
    assert (payload.facts["numerics"], read_vectors(payload.path).shape) == ("b", (3, 2))


def test_what_cannot_be_truncated_is_refused_before_any_work(tmp_path, tiny_model):
    with pytest.raises(InputError, match="stages.small.dims: found 33, expected at most 32"):
        reindex(tmp_path, tiny_model, 2, "true", "stages.small.dims=33")
    with pytest.raises(InputError, match="expected an encode stage; small is of kind truncate"):
        load_recipe(
            RECIPE.format(files=tmp_path, model=tiny_model, normalise="true").replace(
                "embeddings: small, ivf_pq: {lists: 2, code_bytes: 2, seed: 3}",
                "embeddings: small}\n  twice: {do: truncate, embeddings: small, dims: 4",
            ),
            source="widths",
        )
    assert not (tmp_path / "work" / "stores" / "passages@collection").exists()
