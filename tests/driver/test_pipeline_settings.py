"""A recipe's settings reach what they set: fusion's weights and constant, draws, numerics."""

from dataclasses import replace

import pyarrow as pa
import pytest
from recipes import invoke, stored

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run
from raypipe.ranking.candidates import pairs
from raypipe.stages.encode import EncodeStage

RECIPE = """
format: 1
name: settings
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{dev: {{file: {folder}/queries.tsv}}}}
{models}
stages:
  one: {{do: read, runs: {{dev: {folder}/one.trec}}}}
  two: {{do: read, runs: {{dev: {folder}/two.trec}}}}
{stages}
resources: {{backend: inline, device: cpu}}
"""
ONE, TWO = (3, 1, 4, 0, 2), (2, 0, 1, 5, 6)


@pytest.fixture
def run(tmp_path):
    """A function that runs further stages over two runs of one query; the summary comes back."""
    folder = tmp_path / "files"
    folder.mkdir()
    words = ("lease", "shard", "zebra", "rank", "run", "query", "passage")
    (folder / "passages.tsv").write_text("".join(f"{i}\tthe {w}\n" for i, w in enumerate(words)))
    (folder / "queries.tsv").write_text("q\ta zebra\n")
    for name, ranking in (("one", ONE), ("two", TWO)):
        lines = [f"q Q0 {p} {r} {10 - r} x\n" for r, p in enumerate(ranking, 1)]
        (folder / f"{name}.trec").write_text("".join(lines))

    def go(*overrides, models="", stages=""):
        text = RECIPE.format(folder=folder, models=models, stages=stages)
        return invoke(text, tmp_path / "w", *overrides).summary

    return go


def ranking(tmp_path, system):
    table = read_run(tmp_path / "w" / "runs" / "dev" / f"{system}.trec")
    return [int(passage) for passage in table["passage_id"].to_pylist()]


def test_each_run_is_fused_with_its_own_weight_down_to_the_depth(run, tmp_path):
    stages = "  fused: {do: fuse, runs: [one, two], method: weighted, weights: [1.0, 0.0]}"
    run(stages=stages)
    # Scores 9 to 5 become 1, 3/4, 1/2, 1/4, 0; what is 0 stands by row.
    assert ranking(tmp_path, "fused") == [3, 1, 4, 0, 2, 5, 6]
    run("stages.fused.weights=[0.0, 1.0]", stages=stages)
    assert ranking(tmp_path, "fused") == [2, 0, 1, 5, 3, 4, 6]
    run("stages.fused.weights=[0.0, 1.0]", "stages.fused.depth=3", stages=stages)
    assert ranking(tmp_path, "fused") == [2, 0, 1]


def test_the_constant_of_rrf_reaches_it(run, tmp_path):
    stages = "  fused: {do: fuse, runs: [one, two], method: rrf}"
    for k in (60, 0):
        run(*([] if k == 60 else [f"stages.fused.k={k}"]), stages=stages)
        sums = {
            p: sum(1 / (k + r.index(p) + 1) for r in (ONE, TWO) if p in r) for p in {*ONE, *TWO}
        }
        assert ranking(tmp_path, "fused") == sorted(sums, key=lambda p, s=sums: (-s[p], p))
    # 1 is second and third, 3 first of one run: the constant decides which of them is better.
    assert ranking(tmp_path, "fused").index(3) < ranking(tmp_path, "fused").index(1)


def test_alternation_takes_the_first_named_runs_best_first(run, tmp_path):
    run(stages="  fused: {do: fuse, runs: [two, one], method: alternate, depth: 4}")
    assert ranking(tmp_path, "fused") == [2, 3, 0, 1]


@pytest.mark.parametrize("seed", [0, 5])
def test_a_draw_of_pairs_is_that_of_its_number_and_seed(run, tiny_duo, tmp_path, seed):
    stages = f"  duo: {{do: score, run: one, model: duo, k1: 4, sample: 2, seed: {seed}}}"
    summary = run(models=f"models: {{duo: {{path: {tiny_duo}}}}}", stages=stages)
    found = stored(tmp_path / "w", summary, "duo.dev").whole_table(schema.SCORES)
    given = pa.table([[0] * 5, list(ONE), [1, 2, 3, 4, 5]], names=["q", "p", "r"])
    columns = (given["q"].to_numpy().astype("i4"), given["p"].to_numpy())
    expected = pairs(*columns, given["r"].to_numpy().astype("i4"), k1=4, sample=2, seed=seed)
    assert len(expected[0]) == 8
    assert found["passage_row"].to_pylist() == expected[1].tolist()
    assert found["other_row"].to_pylist() == expected[2].tolist()


def test_shards_of_two_numerics_classes_end_a_run_that_asks_for_one(run, tiny_model, monkeypatch):
    """Every other shard says that it was computed elsewhere."""
    compute = EncodeStage._run

    def elsewhere(self, encoder, source, hashes, scratch, shard, skip, beat):
        payload = compute(self, encoder, source, hashes, scratch, shard, skip, beat)
        return replace(payload, facts={**payload.facts, "numerics": f"class {shard.index % 2}"})

    monkeypatch.setattr(EncodeStage, "_run", elsewhere)
    given = {
        "models": f"models: {{tiny: {{path: {tiny_model}}}}}",
        "stages": "  vectors: {do: encode, model: tiny}",
    }
    few = "resources.shard_tokens=10"
    with pytest.raises(InputError, match="2 numerics classes: class 0; class 1"):
        run(few, "resources.numerics=one", **given)
    assert run(few, "resources.numerics=any", **given)["exit"] == 0
