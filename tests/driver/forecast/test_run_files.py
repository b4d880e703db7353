"""Run files: which are written; and that the stores are known to fit before the first stage."""

import json
import re
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from raypipe.evaluation.run_files.runs import read_run

RECIPE = """
format: 1
name: written
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{dev: {{file: {folder}/queries.tsv}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 200}}
  given: {{do: read, runs: {{dev: {folder}/run.trec}}}}
  fused: {{do: fuse, runs: [given, dense], method: rrf, depth: 20}}
resources: {{backend: inline, device: cpu}}
"""
QRELS = "".join(f"q{n} 0 {n + 2} 1\n" for n in range(12))


@pytest.fixture
def here(files, tiny_model, raypipe_here, tmp_path):
    """A command over the recipe in the workspace `work`; its completed process."""
    text = RECIPE.format(folder=files, model=tiny_model)
    (tmp_path / "foreseen.yaml").write_text(text)
    (tmp_path / "qrels.txt").write_text(QRELS)
    work = tmp_path / "work"

    def call(verb, *more, expected=0):
        words = [tmp_path / "foreseen.yaml", "--out", work] if verb in ("plan", "pipeline") else []
        done = raypipe_here(verb, *words, *more)
        assert done.returncode == expected, done.stderr
        return done

    call.work, call.runs = work, work / "runs" / "dev"
    return call


def test_run_files_are_those_asked_for(here):
    for more, endings in (
        ((), [".trec"]),
        (("runs.tsv=true",), [".trec", ".tsv"]),
        (("runs={tsv: true, packed: true}",), [".trec.gz", ".tsv.gz"]),
        (("runs.packed=true",), [".trec.gz"]),
    ):
        here("pipeline", *more)
        names = {file.name for file in here.runs.iterdir()}
        assert {"".join(Path(name).suffixes) for name in names} == {*endings}
        assert len(names) == 3 * len(endings)


def test_a_packed_run_is_the_same_run(here, tmp_path):
    here("pipeline")
    plain = read_run(here.runs / "given.trec")
    here("pipeline", "runs.packed=true")
    assert read_run(here.runs / "given.trec.gz").equals(plain)

    def compared(*runs):
        words = [*runs, "--qrels", tmp_path / "qrels.txt", "--measures", "RR@10"]
        return here("compare", *words, "--json").stdout.replace(".trec.gz", ".trec")

    packed = compared(here.runs / "fused.trec.gz", here.runs / "dense.trec.gz")
    here("pipeline")
    assert compared(here.runs / "fused.trec", here.runs / "dense.trec") == packed
    assert here("verify", here.work).returncode == 0


Usage = namedtuple("Usage", "total used free")


@pytest.mark.fault(8, "a disk too small for the stores: exit 3 before the first stage")
def test_a_disk_too_small_is_found_before_the_first_stage(here, monkeypatch):
    stores = round(json.loads(here("plan", "--json").stdout)["totals"]["bytes"])
    for free in (stores * 9 // 10, 100):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: Usage(10**9, 0, free))
        told = here("pipeline", expected=3).stderr
        assert f"stores in {here.work / 'stores'}" in told, told
        assert "kB (" in told and "0.0 GB" not in told and f"{free:,} bytes" in told
        assert here("status", here.work, expected=3).stdout.startswith("failed: exit 3")
        kept = {path.name for path in (here.work / "stores").iterdir()}
        assert not {name for name in kept if name.startswith(("passages@", "vectors", "dense"))}
        assert not here.runs.exists()
    needed = int(re.search(r"expected .* \(([\d,]+) bytes\) free", told)[1].replace(",", ""))
    assert needed > stores, "folders and records fill blocks of the disk"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, needed))
    here("pipeline")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, 100))
    here("pipeline")  # what is there needs no space, and run files are not forecast
    passages = here.work.parent / "files" / "passages.tsv"
    passages.write_text(passages.read_text() + "230\tzebra\n")
    enough = 25_000  # for the passages, not for the lines of the search
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 0, enough))
    told = here("pipeline", expected=3).stderr  # rows may be copied: each store in its turn
    assert "230 of them copied" in told and "free for the missing shards" in told
