"""Commands that read text and tables start without the packages that take seconds to load."""

import subprocess
import sys

import pytest
import tiny
import torch

from raypipe.config import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline

HEAVY = ("torch", "ray", "faiss", "transformers", "jnius", "pyserini", "peft")


def test_nothing_heavy_is_loaded(tmp_path):
    (tmp_path / "run.trec").write_text("1 Q0 a 1 2 x\n1 Q0 b 2 1 x\n")
    (tmp_path / "qrels.txt").write_text("1 0 b 1\n")
    lines = ["--help", "recipes", "recipes msmarco-multistage", "pipeline --help"]
    lines.append("evaluate run.trec --qrels qrels.txt")
    code = (
        "import sys\n"
        "from raypipe.cli.main import run\n"
        f"for line in {lines!r}:\n"
        "    code, reason = run(line.split())\n"
        f"    loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "    print('after', line, code, loaded, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if line.startswith("after")]
    assert told == [f"after {line} 0 []" for line in lines], done.stderr


RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
models: {{tiny: {{path: {model}}}, mono: {{path: {mono}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 2}}
  mono: {{do: score, run: dense, model: mono, k0: 2}}
evaluate: {{measures: [RR@10], baseline: dense}}
resources: {{backend: inline, device: cpu}}
"""


@pytest.mark.slow
def test_a_rerun_and_what_reads_its_workspace_load_none_of_them(tmp_path, tiny_model):
    (tmp_path / "passages.tsv").write_text("a\tthe zebra\nb\ta lease\nc\tof shards\n")
    (tmp_path / "queries.tsv").write_text("1\tthe zebra\n2\ta lease\n")
    (tmp_path / "qrels.txt").write_text("1 0 a 1\n2 0 b 1\n")
    tiny.make_tiny_reranker(tmp_path / "mono", seed=1)
    recipe, work = tmp_path / "tiny.yaml", tmp_path / "work"
    recipe.write_text(RECIPE.format(folder=tmp_path, model=tiny_model, mono=tmp_path / "mono"))
    run_pipeline(load_recipe(recipe), work, Options(), watcher=Watcher())
    code = (
        "import sys\n"
        "from raypipe.cli.main import run\n"
        "for line in sys.argv[1:]:\n"
        "    code, _ = run(line.split())\n"
        f"    loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "    print('after', line, code, loaded, file=sys.stderr)"
    )
    verbs = ["status", "verify", "history", "gc", "table", "report"]
    lines = [f"pipeline {recipe} --out {work}", *(f"{verb} {work}" for verb in verbs)]
    done = subprocess.run([sys.executable, "-c", code, *lines], capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if line.startswith("after")]
    assert told == [f"after {line} 0 []" for line in lines], done.stderr
    assert f"device: CPU, torch {torch.__version__}, fp32" in done.stderr
