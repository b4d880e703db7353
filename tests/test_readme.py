"""The README's commands exist as shown; the two that install are what CI runs."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^    ((?:python3\.11|raypipe|ray|export) .*)$", README, re.MULTILINE)
VERBS = sorted({shlex.split(c)[1] for c in COMMANDS if c.startswith("raypipe ")})


def test_the_two_commands_install_and_run_and_install_and_test():
    installs = [c for c in COMMANDS if c.startswith("python3.11")]
    assert installs == [
        "python3.11 -m venv .venv && .venv/bin/pip install . && .venv/bin/raypipe quickstart",
        "python3.11 -m venv .venv && .venv/bin/pip install '.[test]' && .venv/bin/python -m pytest",
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shown_is_there(raypipe_cli, verb):
    done = raypipe_cli(verb, "--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout


def test_every_option_shown_is_there(raypipe_cli):
    for command in COMMANDS:
        words = shlex.split(command)
        if words[0] != "raypipe":
            continue
        told = raypipe_cli(words[1], "--help", COLUMNS="200").stdout
        for word in words[2:]:
            assert not word.startswith("--") or word in told, f"{command}: {word}"


def test_a_pipeline_as_shown_runs_resumes_and_refuses(raypipe_cli, small_files, tmp_path):
    recipe = tmp_path / "my-recipe.yaml"
    recipe.write_text(
        f"""
format: 1
name: mine
collection: {{format: msmarco-v1, input: {small_files}/passages.tsv}}
queries:
  test: {{file: {small_files}/queries.test.tsv, qrels: {small_files}/qrels.test.txt}}
stages:
  lucene: {{do: index}}
  bm25: {{do: search, index: lucene}}
evaluate: {{measures: ["RR@10"]}}
resources: {{backend: inline}}
"""
    )
    work = tmp_path / "work"
    assert raypipe_cli("pipeline", recipe, "--out", work).returncode == 0
    changed = raypipe_cli("pipeline", recipe, "--out", work, "stages.bm25.depth=100")
    assert changed.returncode == 0, changed.stderr
    assert "bm25.test: params.depth 1000 -> 100" in changed.stderr
    assert "lucene: reused" in changed.stderr
    frozen = raypipe_cli("pipeline", recipe, "--out", work, "--frozen")
    assert frozen.returncode == 4
    assert "params.depth 100 -> 1000" in frozen.stderr


test_a_pipeline_as_shown_runs_resumes_and_refuses = pytest.mark.jvm(
    test_a_pipeline_as_shown_runs_resumes_and_refuses
)


def test_folders_of_the_tree_exist_and_are_all_there():
    shown = set(re.findall(r"^    (raypipe/\w+)/", README, re.MULTILINE))
    here = {f"raypipe/{p.name}" for p in (ROOT / "raypipe").iterdir() if p.is_dir()}
    assert shown == {name for name in here if "__pycache__" not in name and "recipes" not in name}
