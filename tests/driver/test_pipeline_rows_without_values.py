import json
from types import SimpleNamespace

import pytest
from recipes import invoke
from safetensors.torch import load_file, save_file

from raypipe.errors import LimitError
from raypipe.evaluation.run_files.runs import read_run

RECIPE = """
format: 1
name: poison
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv}}}}
models: {{tiny: {{path: {encoder}}}, mono: {{path: {mono}}}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 300}}
  mono: {{do: score, run: dense, model: mono, k0: 300}}
resources: {{backend: inline, device: cpu, shard_tokens: 3000, max_failed_rows: {limit}}}
"""


def spoil(folder, words_name):
    """The letter z has no finite embedding."""
    weights = load_file(folder / "model.safetensors")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    for piece in ("zebra", "z", "##z"):
        weights[words_name][vocabulary[piece]] = float("inf")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def spoilt(tiny, small_files, tmp_path):
    encoder = tiny.make_tiny_bert(tmp_path / "encoder")
    mono = tiny.make_tiny_reranker(tmp_path / "mono")
    spoil(encoder, "embeddings.word_embeddings.weight")
    lines = (small_files / "passages.tsv").read_text().splitlines()[:60]
    files = tmp_path / "files"
    files.mkdir()
    texts = [line.split("\t", 1) for line in lines]
    texts = [(i, text.lower().replace("z", "s")) for i, text in texts]
    texts[7], texts[41] = (texts[7][0], "a zebra"), (texts[41][0], "zz and a shard")
    (files / "passages.tsv").write_text("".join(f"{i}\t{text}\n" for i, text in texts))
    queries = (small_files / "queries.test.tsv").read_text().lower().replace("z", "s")
    (files / "queries.test.tsv").write_text("".join(queries.splitlines(keepends=True)[:4]))
    spoil(mono, "bert.embeddings.word_embeddings.weight")

    def go(limit):
        text = RECIPE.format(files=files, encoder=encoder, mono=mono, limit=limit)
        return invoke(text, tmp_path / "work").summary

    return SimpleNamespace(go=go, work=tmp_path / "work", ids=[texts[7][0], texts[41][0]])


@pytest.mark.fault(
    22, "2 of 60 passages without a value: 2 counted, 0 ranked; exit 5 where none is allowed"
)
def test_vectors_and_scores_without_a_value_are_counted_and_never_ranked(spoilt):
    with pytest.raises(
        LimitError, match=r"2 rows could not be computed.*\[7, 41\], of .* not finite"
    ):
        spoilt.go(0)
    assert json.loads((spoilt.work / "summary.json").read_text())["exit"] == 5
    summary = spoilt.go(2)
    encoded = summary["stages"]["embeddings"]
    assert encoded["shards"]["quarantined"] == 2
    assert encoded["coverage"] == pytest.approx(58 / 60)
    assert encoded["shards"]["reused"] == encoded["shards"]["planned"], "nothing is lost"
    for system in ("dense", "mono"):
        table = read_run(spoilt.work / "runs" / "test" / f"{system}.trec")
        assert table.num_rows == 4 * 58
        assert not set(spoilt.ids) & set(table["passage_id"].to_pylist())


@pytest.mark.fault(22, "8 candidates without a score: 8 counted, 0 in the run")
def test_candidates_without_a_score_leave_the_run(spoilt):
    """The mono alone is spoilt: its two passages are in the run that it reranks."""
    text = (spoilt.work.parent / "files" / "passages.tsv").read_text()
    names = [line.split("\t")[0] for line in text.splitlines()]
    run_file = spoilt.work.parent / "files" / "run.trec"
    queries = (spoilt.work.parent / "files" / "queries.test.tsv").read_text().splitlines()
    lines = [
        f"{query.split(chr(9))[0]} Q0 {name} {rank} {-rank} x\n"
        for query in queries
        for rank, name in enumerate(names, 1)
    ]
    run_file.write_text("".join(lines))
    recipe = f"""
format: 1
name: poison
collection: {{format: msmarco-v1, input: {spoilt.work.parent}/files/passages.tsv}}
queries: {{test: {{file: {spoilt.work.parent}/files/queries.test.tsv}}}}
models: {{mono: {{path: {spoilt.work.parent}/mono}}}}
stages:
  first: {{do: read, runs: {{test: {run_file}}}}}
  mono: {{do: score, run: first, model: mono, k0: 50}}
resources: {{backend: inline, device: cpu, shard_tokens: 3000, max_failed_rows: 8}}
"""
    out = spoilt.work.parent / "scored"
    summary = invoke(recipe, out).summary
    assert summary["stages"]["scores@mono.test"]["shards"]["quarantined"] == 8
    table = read_run(out / "runs" / "test" / "mono.trec")
    assert table.num_rows == 4 * 58
    assert not set(spoilt.ids) & set(table["passage_id"].to_pylist())
