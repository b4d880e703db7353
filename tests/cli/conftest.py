"""A small finished pipeline; a masked language model without a pooler, and an adapter over it."""

import pytest
from poolerless import made_by_peft
from safetensors.torch import load_file

from raypipe.cli.main import run

PIPELINE = """
format: 1
name: small
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
stages:
  one: {{do: read, runs: {{test: {folder}/one.trec}}}}
  two: {{do: read, runs: {{test: {folder}/two.trec}}}}
evaluate: {{measures: [RR@10], baseline: one}}
resources: {{backend: inline, device: cpu}}
"""


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    """Two runs of two queries, one of them judged."""
    folder = tmp_path_factory.mktemp("show")
    (folder / "passages.tsv").write_text(
        f"p1\tthe zebra\np2\ta lease{' of shards' * 40}\np3\t{'x' * 300}\n"
    )
    (folder / "queries.tsv").write_text("q1\ta lease\nq2\tzebra\n")
    (folder / "qrels.txt").write_text("q1 0 p2 1\n")
    (folder / "one.trec").write_text("q1 Q0 p1 1 9 x\nq1 Q0 p2 2 8.5 x\n")
    (folder / "two.trec").write_text("q1 Q0 p2 1 9 x\nq2 Q0 p3 1 8 x\n")
    (folder / "recipe.yaml").write_text(PIPELINE.format(folder=folder))
    assert run(["pipeline", str(folder / "recipe.yaml"), "--out", str(folder / "work")])[0] == 0
    return folder / "work"


@pytest.fixture(scope="session")
def base(tiny, tmp_path_factory):
    """A BertForMaskedLM with a tokenizer."""
    from transformers import BertForMaskedLM

    folder = tmp_path_factory.mktemp("base") / "base"
    BertForMaskedLM(tiny.tiny_config(folder, 0, 2)).save_pretrained(folder)
    assert not [name for name in load_file(folder / "model.safetensors") if "pooler" in name]
    return folder


@pytest.fixture(scope="session")
def adapter(base):
    """An adapter that peft saved, with a classifier."""
    return made_by_peft(base, base.parent / "adapter", pooler=False)


@pytest.fixture
def inputs(tmp_path):
    """The folder of three passages, two queries and a run of them."""
    (tmp_path / "passages.tsv").write_text("p0\tthe zebra\np1\ta lease\np2\tof shards\n")
    (tmp_path / "queries.tsv").write_text("q1\ta zebra\nq2\tthe lease\n")
    lines = [f"{q} Q0 p{n} {n + 1} {9 - n} x\n" for q in ("q1", "q2") for n in range(3)]
    (tmp_path / "run.trec").write_text("".join(lines))
    return tmp_path
