"""A decoder with layers behind its pooling, from its folder to a ranking."""

import json

import numpy as np
import pytest
from json_files import changed
from peer_encoders import peer
from recipes import stored
from stage_inputs import vectors_of

from raypipe.models.folder.model_folder import resolve_model

PASSAGES = ["a lease of the shard", "the zebra run", "", "rank of a query", "the run " * 40, "a b"]
QUERIES = {"q1": "zebra rank", "q2": "lease"}
PROMPTS = {"query": "Instruct: find passages\nQuery:", "document": ""}


@pytest.fixture
def theirs(tmp_path):
    import torch
    from sentence_transformers.base.modules import Dense, Normalize

    plain = Dense(32, 24, activation_function=torch.nn.Identity(), bias=False)
    return peer(tmp_path / "m", "qwen3", "lasttoken", plain, Normalize(), prompts=PROMPTS)


def done(ended):
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.slow
def test_encode_and_search_give_sentence_transformers_embeddings_and_its_ranking(
    theirs, tmp_path, raypipe_here, inline
):
    passages, queries, model = (tmp_path / name for name in ("p.tsv", "q.tsv", "m"))
    passages.write_text("".join(f"d{row}\t{text}\n" for row, text in enumerate(PASSAGES)))
    queries.write_text("".join(f"{query}\t{text}\n" for query, text in QUERIES.items()))
    made, found = tmp_path / "made", tmp_path / "found"
    common = ["--json"]
    encode = ["encode", "--collection", passages, "--model", model, "--out", made, *common]
    first = done(raypipe_here(*encode))
    embeddings = vectors_of(stored(made, first, "embeddings"))
    expected = theirs.encode_document(PASSAGES)
    np.testing.assert_allclose(embeddings, expected, atol=6e-4)  # stored as fp16
    search = ["search", "--index", made, "--queries", queries, "--model", model, "--depth", "6"]
    done(raypipe_here(*search, "--out", found, *common))
    products = theirs.encode_query(list(QUERIES.values())) @ expected.T
    lines = (found / "runs/queries/search.trec").read_text().split("\n")[:-1]
    for row, query in enumerate(QUERIES):
        ranked = [line.split()[2] for line in lines if line.startswith(f"{query} ")]
        assert ranked == [f"d{passage}" for passage in np.argsort(-products[row])]
    assert done(raypipe_here(*encode))["stages"]["embeddings"]["reused"]
    changed(model / "2_Dense" / "config.json", activation_function="torch.nn.Tanh")
    again = done(raypipe_here(*encode))["stages"]["embeddings"]
    assert again["fingerprint"] != first["stages"]["embeddings"]["fingerprint"]


def test_the_settings_of_a_recipe_cut_the_embeddings(theirs, tmp_path, raypipe_here):
    passages = tmp_path / "p.tsv"
    passages.write_text("".join(f"d{row}\t{text}\n" for row, text in enumerate(PASSAGES)))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"""
format: 1
name: cut
collection: {{format: msmarco-v1, input: {passages}}}
models: {{m: {{path: {tmp_path / "m"}, settings: {{truncate_dim: 10}}}}}}
stages: {{embeddings: {{do: encode, model: m}}}}
resources: {{backend: inline, device: cpu}}
"""
    )
    out = tmp_path / "out"
    summary = done(raypipe_here("pipeline", recipe, "--out", out, "--json"))
    expected = theirs.encode_document(PASSAGES, truncate_dim=10, normalize_embeddings=True)
    found = vectors_of(stored(out, summary, "embeddings"))
    np.testing.assert_allclose(found, expected, atol=6e-4)
    model = resolve_model(str(tmp_path / "m"), settings={"truncate_dim": 10})
    assert (model.dim, resolve_model(str(tmp_path / "m")).dim) == (10, 24)
