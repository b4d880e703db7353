"""The reranker in comments of the recipe `english`, from a hub, once its lines have no #."""

import json
import re

import pytest

from raypipe.cli.main import run
from raypipe.config.load import recipe_text

NAME = "cross-encoder/ms-marco-MiniLM-L6-v2"


@pytest.fixture
def cross_encoder(tiny, tmp_path):
    """A folder as sentence-transformers saves one: a unit, its activation, no raypipe.json."""
    folder = tiny.make_tiny_reranker(tmp_path / "one-unit", units=1)
    (folder / "raypipe.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.jvm
@pytest.mark.slow
def test_mono_from_the_hub_and_duo_rerank_the_sum(
    hub, cross_encoder, tiny_model, tiny_duo, tmp_path, monkeypatch, inline
):
    commit = hub.push(NAME, cross_encoder)
    text = re.sub(r"^  # ([\w-]+: \{)", r"  \1", recipe_text("english"), flags=re.MULTILINE)
    (tmp_path / "mine.yaml").write_text(text)
    (tmp_path / "duo").symlink_to(tiny_duo)
    (tmp_path / "qrels").mkdir()
    texts = {"d1": "a zebra runs", "d2": "the lease of a shard", "d3": "ranks and shards"}
    corpus = [json.dumps({"_id": key, "title": "", "text": said}) for key, said in texts.items()]
    (tmp_path / "corpus.jsonl").write_text("\n".join(corpus) + "\n")
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "zebra"}) + "\n")
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    monkeypatch.setenv("BEIR", str(tmp_path))
    out = tmp_path / "work"
    command = ["pipeline", str(tmp_path / "mine.yaml"), "--out", str(out)]
    assert run([*command, f"models.minilm.path={tiny_model}"])[0] == 0
    ranked = {
        path.stem: [line.split()[2] for line in path.read_text().splitlines()]
        for path in (out / "runs" / "test").iterdir()
    }
    assert sorted(ranked) == ["bm25", "dense", "duo-sum", "fused", "mono"]
    assert sorted(ranked["duo-sum"]) == sorted(ranked["mono"]) == sorted(texts)
    assert commit in (out / "recipe.yaml").read_text()
