"""A model folder that changes under a workspace: what is built again, refused, and mended."""

import json
import shutil
from pathlib import Path

import pytest
from recipes import invoke

from raypipe.cli.main import run as raypipe
from raypipe.errors import RefusedError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.tokenize import TokenizeStage

RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}}}
models: {{tiny: {{path: {model}}}, mono: {{path: {mono}}}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 10}}
  mono: {{do: score, run: dense, model: mono, k0: 3}}
evaluate: {{measures: ["RR@10"]}}
resources: {{backend: inline, device: cpu, shard_tokens: 2000}}
"""


@pytest.fixture
def place(tiny_model, tiny_mono, tmp_path):
    """A folder with both models."""
    shutil.copytree(tiny_model, tmp_path / "model")
    shutil.copytree(tiny_mono, tmp_path / "mono")
    return tmp_path


@pytest.fixture
def recipe(place, small_files):
    for name in ("queries.test.tsv", "qrels.test.txt"):
        shutil.copy(small_files / name, place / name)
    passages = (small_files / "passages.tsv").read_bytes().splitlines(keepends=True)
    (place / "passages.tsv").write_bytes(b"".join(passages[:40]))
    text = RECIPE.format(files=place, model=place / "model", mono=place / "mono")
    (place / "tiny.yaml").write_text(text)
    return place / "tiny.yaml"


def pipeline(recipe, out, **options):
    said = []
    summary = invoke(recipe.read_text(), out, said=said, **options).summary
    return {name for name, stage in summary["stages"].items() if not stage["reused"]}, said


def change(folder, **fields):
    body = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**body, **fields}))


def blobs(out: Path) -> set[str]:
    return {path.name for path in (out / "stores" / "blobs").rglob("*") if path.is_file()}


def test_other_heads_build_again_what_they_decide_and_are_told_by_name(recipe, place):
    out = place / "work"
    pipeline(recipe, out)
    change(place / "model", num_attention_heads=1)
    with pytest.raises(RefusedError, match=r"config\.num_attention_heads 4 -> 1"):
        pipeline(recipe, out, frozen=True)
    rebuilt, said = pipeline(recipe, out)
    assert "embeddings" in rebuilt and any(name.startswith("dense") for name in rebuilt)
    assert not [name for name in rebuilt if name.startswith(("passages@collection", "tokens@tiny"))]
    (line,) = [line for line in said if line.startswith("embeddings: ")]
    assert line == "embeddings: params.config.num_attention_heads 4 -> 1"


def test_a_rerankers_heads_score_again(recipe, place):
    out = place / "work"
    pipeline(recipe, out)
    change(place / "mono", num_attention_heads=2)
    rebuilt, _ = pipeline(recipe, out)
    assert any(name.startswith("mono") for name in rebuilt)
    assert not [name for name in rebuilt if name.startswith(("embeddings", "dense", "tiny"))]


def test_a_bad_config_is_refused_and_the_same_command_completes_when_it_is_mended(
    recipe, place, capfd
):
    command = ["pipeline", str(recipe), "--out", str(place / "work")]
    file = place / "model" / "config.json"
    good = file.read_bytes()
    layers = json.dumps({**json.loads(good), "num_hidden_layers": 1}).encode()
    for bad in (b"{", b"[]", layers):
        file.write_bytes(bad)
        assert raypipe(command)[0] == 2
        assert f"error: models.tiny: {place / 'model'}" in capfd.readouterr().err
    file.write_bytes(good)
    assert raypipe(command)[0] == 0
    pipeline(recipe, place / "fresh")
    assert blobs(place / "work") == blobs(place / "fresh")
    run = Path("runs") / "test" / "mono.trec"
    assert (place / "work" / run).read_bytes() == (place / "fresh" / run).read_bytes()


@pytest.mark.fault(20, "a tokenizer that changes under a run ends it, and nothing is published")
def test_a_tokenizer_that_changes_under_a_run_ends_it_and_nothing_is_published(
    recipe, place, monkeypatch, capfd
):
    """A worker opens the folder after the driver read it: here its vocabulary changes between."""
    command = ["pipeline", str(recipe), "--out", str(place / "work"), "--until", "embeddings"]
    file = place / "model" / "tokenizer.json"
    good = file.read_bytes()
    opened = TokenizeStage.open

    def after_a_change(stage, site):
        file.write_bytes(good.replace(b'"zebra"', b'"zebru"'))
        return opened(stage, site)

    with monkeypatch.context() as patched:
        patched.setattr(TokenizeStage, "open", after_a_change)
        assert raypipe(command)[0] == 2
    assert f"{file}: expected the tokenizer" in capfd.readouterr().err
    assert not list((place / "work" / "stores" / "tokens@tiny").glob("*/manifest.json"))
    file.write_bytes(good)
    assert raypipe(command)[0] == 0
    expected = resolve_model(str(place / "model")).tokenizer_sha256
    (spec,) = (place / "work" / "stores" / "tokens@tiny").glob("*/spec.json")
    assert expected in spec.read_text()
