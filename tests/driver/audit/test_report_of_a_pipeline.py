"""What a lower precision changes is measured in the invocation that uses it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau
from watchers import Silent

from raypipe.config import load_recipe
from raypipe.driver.analysis.finished import open_finished
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.evaluation.difference import difference
from raypipe.models.folder.loading import resolve_model
from raypipe.stages.in_memory import encode_texts, score_texts

RECIPE = """
format: 1
name: lowered
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries:
  test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}
  more: {{file: {files}/queries.more.tsv}}
models: {{tiny: {{path: {model}}}, mono: {{path: {mono}}}, duo: {{path: {duo}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 40}}
  mono: {{do: score, run: dense, model: mono, k0: 15}}
  duo: {{do: score, run: mono, model: duo, k1: 4}}
  duo-sum: {{do: aggregate, pairs: duo, method: sum}}
evaluate: {{measures: ["nDCG@10", "R@20"], baseline: dense}}
resources:
  {{backend: inline, device: cpu, threads: 1, precision: {precision}, shard_tokens: 1000,
   shard_queries: 7, audit_queries: 50}}
stores: {stores}
"""
WORDS = "lease shard rank query passage score merge model token batch depth index".split()
STAGES = ("dense", "mono", "duo", "duo-sum")


@pytest.fixture(scope="module", autouse=True)
def capable():
    """A CPU that multiplies in bf16; torch computes in it on any, if slowly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory, tiny_model, tiny_mono, tiny_duo):
    files, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(1)

    def tsv(prefix, number):
        lines = (" ".join(rng.choice(WORDS, 6)) for _ in range(number))
        return "".join(f"{prefix}{i}\t{line}\n" for i, line in enumerate(lines))

    (files / "passages.tsv").write_text(tsv("p", 60))
    (files / "queries.test.tsv").write_text(tsv("q", 12))
    (files / "queries.more.tsv").write_text(tsv("m", 3))
    (files / "qrels.test.txt").write_text("".join(f"q{i} 0 p{i} 1\n" for i in range(11)))
    models = {"model": tiny_model, "mono": tiny_mono, "duo": tiny_duo}

    def made(precision="bf16", stores="null"):
        return RECIPE.format(files=files, precision=precision, stores=stores, **models)

    return made


def run(text, out, *overrides, **options):
    recipe = load_recipe(text, source="test", overrides=overrides)
    return run_pipeline(
        recipe, out, Options(**options), watcher=Silent(), say=lambda line: None
    ).summary


@pytest.fixture(scope="module")
def both(text, tmp_path_factory):
    """The same recipe in bf16, audited, and in fp32."""
    folder = tmp_path_factory.mktemp("both")
    for precision in ("bf16", "fp32"):
        run(text(precision), folder / precision)
    return folder


def audit_of(folder, query_set="test"):
    return json.loads((folder / "summary.json").read_text())["audit"][query_set]


@pytest.mark.slow
def test_nothing_is_audited_in_fp32(both):
    assert "audit" not in json.loads((both / "fp32" / "summary.json").read_text())
    assert not [*(both / "fp32" / "stores").glob("audit@*")]
    assert "precision" not in (both / "fp32" / "table.md").read_text()


def rows_of(files, name):
    return [line.split("\t")[1] for line in (files / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def by_hand(both, text, tiny_model, tiny_mono, tiny_duo):
    """Stage -> (own lists, lists in fp32) of query row -> key -> score, best first."""
    files = Path(load_recipe(text(), source="test").collection.input[0]).parent
    queries, passages = rows_of(files, "queries.test.tsv"), rows_of(files, "passages.tsv")
    done = open_finished(both / "bf16")
    found = {}
    for name in ("dense", "mono", "duo-sum"):
        lines = [li for li in done.run(name, "test").to_pylist() if li["scored_by"] == name]
        lines = [li for li in lines if name != "dense" or li["rank"] <= 30]
        found[name] = [((li["query_row"], li["passage_row"]), li["score"]) for li in lines]
    found["duo"] = [
        ((li["query_row"], li["passage_row"], li["other_row"]), li["score"])
        for li in done.pairs("duo", "test").to_pylist()
    ]

    def vectors(texts, side):
        model = resolve_model(str(tiny_model)).in_precision("fp32")
        return encode_texts(model, texts, side=side, device="cpu").astype("f8")

    def scores(path, keys):
        model = resolve_model(str(path)).in_precision("fp32")
        columns = tuple(np.array([*column, -1][: len(keys)]) for column in zip(*keys, strict=True))
        return score_texts(model, queries, passages, columns, device="cpu").tolist()

    products = vectors(queries, "query") @ vectors(passages, "passage").T
    keys = {name: [key for key, _ in lines] for name, lines in found.items()}
    fp32 = {
        "dense": {key: float(products[key]) for key in keys["dense"]},
        "mono": dict(zip(keys["mono"], scores(tiny_mono, keys["mono"]), strict=True)),
        "duo": dict(zip(keys["duo"], scores(tiny_duo, keys["duo"]), strict=True)),
    }
    sums = {}
    for (query, one, _), p in fp32["duo"].items():
        sums[query, one] = sums.get((query, one), 0.0) + p
    fp32["duo-sum"] = {key: sums[key] for key in keys["duo-sum"]}

    def lists(of):
        made = {}
        for (query, *rest), score in of:
            made.setdefault(query, {})[tuple(rest)] = score
        return made

    def ordered(of):
        return {q: dict(sorted(li.items(), key=lambda kv: (-kv[1], kv[0]))) for q, li in of.items()}

    return {name: (lists(found[name]), ordered(lists(fp32[name].items()))) for name in found}


@pytest.mark.parametrize("stage", STAGES)
def test_scores_and_orders_are_those_of_the_same_candidates_computed_in_fp32(stage, both, by_hand):
    own, fp32 = by_hand[stage]
    found = audit_of(both / "bf16")[stage]
    assert found["precision"] == "bf16" and found["lacking"] == 0
    assert found["queries"] == found["of_queries"] == 12
    assert found["scores"] == sum(map(len, own.values()))
    most = max(abs(score - fp32[q][key]) for q, li in own.items() for key, score in li.items())
    assert found["largest_difference"] == pytest.approx(most, rel=1e-3) and most > 0
    taus = [
        kendalltau([*li.values()], [fp32[q][key] for key in li]).statistic for q, li in own.items()
    ]
    assert found["kendall_tau"] == pytest.approx(np.mean(taus), abs=1e-9)
    changed = sum([*own[q]][:10] != [*fp32[q]][:10] for q in own)
    assert found["another_top_10"] == (None if stage == "duo" else changed)


def test_a_measures_difference_is_paired_over_the_judged_queries(both, by_hand):
    own, fp32 = by_hand["mono"]
    found = audit_of(both / "bf16")["mono"]
    assert found["judged"] == 11
    gains = {}
    for side, lists in (("own", own), ("fp32", fp32)):
        ranks = {q: [*lists[q]].index((q,)) + 1 if (q,) in lists[q] else 99 for q in range(11)}
        gains[side] = {str(q): 1 / np.log2(1 + r) if r <= 10 else 0.0 for q, r in ranks.items()}
    expected = difference(gains["own"], gains["fp32"])
    told = found["measures"]["nDCG@10"]
    assert told["difference"] == pytest.approx(expected.mean, abs=1e-6)
    assert (told["low"], told["high"]) == pytest.approx((expected.low, expected.high), abs=1e-6)
    assert audit_of(both / "bf16", "more")["mono"]["measures"] == {}


def test_the_printed_table_has_a_line_for_each_stage_and_says_what_is_compared(both):
    table = (both / "bf16" / "table.md").read_text()
    for query_set in ("test", "more"):
        told = audit_of(both / "bf16", query_set)
        block = table.split(f"## {query_set}, precision")[1].split("\n## ")[0]
        rows = [[c.strip() for c in li.strip("|").split("|")] for li in block.splitlines()]
        for stage in STAGES:
            (row,) = [row for row in rows if row[0] == stage]
            num = told[stage]["queries"]
            assert row[1:4] == ["bf16", f"{num} of {num}", f"{told[stage]['scores']:,}"]
            assert row[4] == f"{told[stage]['largest_difference']:.1e}"
            assert row[5] == f"{told[stage]['kendall_tau']:.4f}"
        assert ("nDCG@10" in block) == (query_set == "test")
        assert "dense: the first 30 passages of each query" in block
        assert "mono: the first" not in block


@pytest.mark.slow
def test_the_page_shows_what_summary_json_says(both, raypipe_here):
    assert raypipe_here("report", both / "bf16").returncode == 0
    section = json.loads((both / "bf16" / "analysis" / "overview.test.json").read_text())
    (table,) = [each for each in section["tables"] if each["title"].startswith("Precision")]
    told = audit_of(both / "bf16")
    rows = {row[0]: dict(zip(table["columns"], row, strict=True)) for row in table["rows"]}
    assert [*rows] == [*STAGES]
    for stage, row in rows.items():
        assert row["largest difference"] == told[stage]["largest_difference"]
        assert not any("top 10" in column for column in row), "it would count any swap"
    assert rows["mono"]["nDCG@10 low"] == told["mono"]["measures"]["nDCG@10"]["low"]
    assert raypipe_here("report", both / "fp32").returncode == 0
    page = (both / "fp32" / "analysis" / "overview.test.json").read_text()
    assert "Precision" not in page


def test_an_audit_is_forecast_with_what_it_takes(both):
    summary = json.loads((both / "bf16" / "summary.json").read_text())
    for stage in ("dense", "mono", "duo"):
        told = summary["forecast"]["stages"][f"audit@{stage}.test"]
        assert told["forecast"]["rows"] == told["fact"]["rows"] == 12
        assert told["forecast"]["tokens"] == pytest.approx(told["fact"]["tokens"], rel=0.2)
        assert told["forecast"]["inferences"] == told["fact"]["inferences"] == 0
    assert any(note.startswith("audit: its time") for note in summary["forecast"]["notes"])


@pytest.mark.slow
def test_limits_choose_whole_queries_evenly_and_switch_the_audit_off(text, both, tmp_path):
    stores = both / "bf16" / "stores"
    few = run(text(stores=stores), tmp_path / "few", "resources.audit_queries=5")
    assert few["audit"]["test"]["mono"]["queries"] == 5
    assert few["audit"]["test"]["mono"]["scores"] == 5 * 15
    assert few["audit"]["more"]["mono"]["queries"] == 3
    cheap = run(text(stores=stores), tmp_path / "cheap", "resources.audit_inputs=47")
    told = {name: one["scores"] for name, one in cheap["audit"]["test"].items()}
    # Whole queries of 31 inputs, 15 and 12; an aggregation is that of its pairs.
    assert told == {"dense": 30, "mono": 3 * 15, "duo": 3 * 12, "duo-sum": 3 * 4}
    off = run(text(stores=stores), tmp_path / "off", "resources.audit_queries=0")
    assert off["audit"]["test"]["mono"] == {
        "precision": "bf16", "of_queries": 12, "queries": 0, "why": "resources.audit_queries is 0",
    }  # fmt: skip
    assert not [place for place in off["stores"] if place.startswith("audit@")]
    told = (tmp_path / "off" / "table.md").read_text()
    assert "- mono: bf16, not compared with fp32, as resources.audit_queries is 0" in told


@pytest.mark.slow
def test_a_generation_is_the_same_with_and_without_an_audit(text, tmp_path):
    done = run(text(), tmp_path / "work", reindex=True)
    assert done["generation"]["published"] and done["audit"]["test"]["mono"]["queries"] == 12
    off = run(text(), tmp_path / "work", "resources.audit_queries=0", reindex=True)
    assert not off["generation"]["published"]


@pytest.mark.slow
def test_an_invocation_of_one_stage_audits_that_stage(text, tmp_path):
    out = tmp_path / "work"
    run(text(), out, "resources.audit_queries=0")
    assert [*run(text(), out, only="mono")["audit"]["test"]] == ["mono"]
    alone = run(text(), out, only="duo-sum")["audit"]["test"]["duo-sum"]
    assert alone["queries"] == 0 and alone["why"] == "duo is not a part of this invocation"
    run(text(), out)
    assert run(text(), out, only="duo-sum")["audit"]["test"]["duo-sum"]["queries"] == 12


@pytest.mark.slow
def test_a_stage_whose_own_settings_lower_the_precision_is_audited_alone(text, tmp_path, tiny_mono):
    mono = shutil.copytree(tiny_mono, tmp_path / "mono")
    settings = json.loads((mono / "raypipe.json").read_text())
    (mono / "raypipe.json").write_text(json.dumps({**settings, "precision": "bf16"}))
    done = run(text("fp32"), tmp_path / "work", f"models.mono.path={mono}")
    assert {name: [*told] for name, told in done["audit"].items()} == {
        "test": ["mono"], "more": ["mono"],
    }  # fmt: skip
    assert done["audit"]["test"]["mono"]["largest_difference"] > 0


def test_a_negative_number_of_queries_is_refused(text, raypipe_here, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(text())
    found = raypipe_here("pipeline", recipe, "--out", tmp_path / "w", "resources.audit_queries=-1")
    assert found.returncode == 2 and "resources.audit_queries" in found.stderr
    assert not (tmp_path / "w").exists()


KILLED = """
import os, sys
from pathlib import Path
import torch
torch.cpu.get_capabilities = lambda: {"avx512_bf16": True}
from raypipe.stages.audit import stage
stage.INPUTS_A_SHARD = 40
from raypipe.storage.ledger import Ledger
commit = Ledger.commit
def killing(self, shard, *given, **named):
    made = commit(self, shard, *given, **named)
    if self.store == "audit@mono.test" and shard.index == 1:
        os._exit(9)
    return made
Ledger.commit = killing
from watchers import Silent
from raypipe.config import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
recipe = load_recipe(sys.stdin.read(), source="test")
run_pipeline(recipe, Path(sys.argv[1]), Options(), watcher=Silent(), say=lambda line: None)
"""


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_and_says_the_same(text, both, tmp_path):
    out = tmp_path / "killed"
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(out)],
        input=text(),
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.returncode == 9
    shards = next((out / "stores" / "audit@mono.test").glob("*/shards"))
    before = {path.name: path.read_bytes() for path in shards.iterdir()}
    assert len(before) == 2
    done = run(text(), out)
    assert {name: (shards / name).read_bytes() for name in before} == before
    assert done["stages"]["audit@mono.test"]["shards"] == {
        "planned": 6, "reused": 2, "quarantined": 0,
    }  # fmt: skip
    assert done["audit"] == json.loads((both / "bf16" / "summary.json").read_text())["audit"]
