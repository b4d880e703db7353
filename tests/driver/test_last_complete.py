"""Finished results stay as they are; what ends before its work does not hide them."""

import json
import logging
from pathlib import Path

import pytest

from raypipe.driver.invocation import invocation
from raypipe.driver.summaries import read_summary, write_summary
from raypipe.driver.workspace import Workspace
from raypipe.storage.bucket import BucketStorage

RECIPE = """
format: 1
name: mine
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
models: {{tiny: {{path: {model}}}, mono: {{path: {mono}, settings: {{segment_row: zero}}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 4}}
  mono: {{do: score, run: dense, model: mono, k0: 3}}
evaluate: {{measures: [RR@10], baseline: dense}}
resources: {{backend: inline, device: cpu}}
"""
READERS = (
    "table",
    "table --format json",
    "report",
    "show --query 1",
    "analyse depth",
    "analyse queries",
)


@pytest.fixture
def mine(tmp_path, tiny_model, tiny_mono, monkeypatch):
    """The recipe's path in a folder with its files, which is the current one."""
    texts = ["the zebra", "a lease", "of shards", "rank a query", "run"]
    (tmp_path / "passages.tsv").write_text("".join(f"p{i}\t{t}\n" for i, t in enumerate(texts)))
    (tmp_path / "queries.tsv").write_text("1\tthe zebra\n2\ta lease\n")
    (tmp_path / "qrels.txt").write_text("1 0 p0 1\n2 0 p1 1\n")
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(RECIPE.format(folder=tmp_path, model=tiny_model, mono=tiny_mono))
    monkeypatch.chdir(tmp_path)
    return recipe


@pytest.fixture
def told(raypipe_here, caplog):
    """Code and output of a command, and its warnings that an older invocation is shown."""
    caplog.set_level(logging.WARNING, "raypipe")

    def call(words, out="work"):
        caplog.clear()
        verb, *rest = words.split()
        where = [rest.pop(0), out] if verb == "analyse" else [out]
        done = raypipe_here(verb, *where, *rest)
        lines = [each for each in caplog.messages if "shown is the invocation" in each]
        return done.returncode, done.stdout, lines

    return call


EARLY = {
    "pipeline mine.yaml --out work --frozen stages.mono.k0=2": 4,
    "reindex mine.yaml --out work --frozen stages.mono.k0=2": 4,
    "reindex mine.yaml --out work --accept": 2,
    "pipeline mine.yaml --out work models.mono.path=nowhere": 2,
    "pipeline mine.yaml --out work stages.mono.k9=2": 2,
    "pipeline nowhere.yaml --out work": 2,
    "search --index nowhere --queries nowhere --out work": 2,
}


@pytest.mark.fault(45, "7 of 7 commands that end early leave the finished results to read")
def test_what_ends_before_its_work_hides_no_finished_result(mine, raypipe_here, told):
    assert raypipe_here("pipeline", mine, "--out", "work").returncode == 0
    began = json.loads(Path("work/summary.json").read_text())["began"]
    before = {words: told(words)[:2] for words in READERS}
    files = {
        p: p.read_bytes() for part in ("runs", "measures") for p in Path("work", part).rglob("*.t*")
    }
    assert {code for code, _ in before.values()} == {0} and len(files) >= 3
    for words, code in EARLY.items():
        ended = raypipe_here(*words.split())
        assert ended.returncode == code, ended.stderr
        status = raypipe_here("status", "work")
        assert status.returncode == code and status.stdout.startswith(f"failed: exit {code}, ")
        reason = json.loads(Path("work/summary.json").read_text())["reason"]
        for each, expected in before.items() if code == 4 else [("table", before["table"])]:
            *found, (line,) = told(each)
            assert tuple(found) == expected, (words, each)
            assert line.endswith(f"wrote no files (failed: exit {code}, {reason})")
            assert line.startswith(f"work: shown is the invocation of {began}, ")
        assert raypipe_here("verify", "work").returncode == 0
    assert all(path.read_bytes() == data for path, data in files.items())
    again = raypipe_here("pipeline", mine, "--out", "work", "--frozen", "stages.mono.k0=3")
    assert again.returncode == 0, again.stderr
    assert told("table") == (*before["table"], [])
    assert "last_complete" not in json.loads(Path("work/summary.json").read_text())


def test_a_driver_killed_before_its_work_hides_none_either(mine, raypipe_here, told):
    raypipe_here("pipeline", mine, "--out", "work")
    expected = told("table")[:2]
    raypipe_here("pipeline", mine, "--out", "work", "--frozen", "stages.mono.k0=2")
    running = {"status": "running", "exit": None, "reason": None}
    write_summary(Path("work"), read_summary(Path("work")) | running)
    *found, (line,) = told("table")
    assert tuple(found) == expected and "(killed: exit 3, " in line
    (refs,) = Path("work/stores/refs").iterdir()
    refs.unlink()
    lost = raypipe_here("verify", "work")
    assert lost.returncode == 3 and "that the last invocation used are in no refs" in lost.stdout


def test_a_complete_summary_holds_no_earlier_one(tmp_path):
    """Also of an invocation that runs no stage, as `reindex --accept`."""
    for _ in range(2):
        with invocation(Workspace(tmp_path / "work"), "mine"):
            pass
    assert "last_complete" not in read_summary(tmp_path / "work")


def test_a_collection_that_is_bad_or_of_other_judgements_hides_no_finished_result(
    mine, raypipe_here, told
):
    """It is stored, and the judgements are looked up in it, before anything is written over."""
    raypipe_here("pipeline", mine, "--out", "work")
    expected, passages = told("table")[:2], Path("passages.tsv").read_bytes()
    for after, problem in {
        b"".join(b"x%d\ta\n" % i for i in range(1000)) + b"p9\t\xff\n": "not UTF-8",
        b"other\ttext\n": "0 of 2 judged passages are in the collection (p0, p1)",
    }.items():
        Path("passages.tsv").write_bytes(after)
        ended = raypipe_here("pipeline", mine, "--out", "work")
        assert ended.returncode == 2 and problem in ended.stderr
        assert told("table")[:2] == expected
        assert raypipe_here("verify", "work").returncode == 0
    Path("passages.tsv").write_bytes(passages)
    assert raypipe_here("pipeline", mine, "--out", "work", "--frozen").returncode == 0


def test_what_failed_in_its_work_is_not_complete(mine, raypipe_here, told):
    """The files may be its own; a later refusal changes nothing of that."""
    raypipe_here("pipeline", mine, "--out", "work")
    Path("run.trec").write_text("1 Q0 nowhere 1 1 theirs\n")
    recipe, read = mine.read_text(), "  theirs: {do: read, runs: {test: run.trec}}\nevaluate:"
    mine.write_text(recipe.replace("evaluate:", read))
    assert raypipe_here("pipeline", mine, "--out", "work").returncode == 2
    assert told("table")[0] == 3
    mine.write_text(recipe)
    assert raypipe_here("pipeline", mine, "--out", "work", "stages.mono.k9=1").returncode == 2
    assert told("table")[0] == 3
    assert raypipe_here("pipeline", mine, "--out", "work", "--frozen").returncode == 0
    assert told("table")[0] == 0


@pytest.mark.slow
def test_a_workspace_in_a_bucket_is_read_so_on_another_machine(
    mine, raypipe_here, told, bucket_uri, tmp_path, monkeypatch
):
    uri = f"{bucket_uri}/work"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one machine"))
    assert raypipe_here("pipeline", mine, "--out", uri).returncode == 0
    expected = told("table", uri)[:2]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    refused = raypipe_here("pipeline", mine, "--out", uri, "--frozen", "stages.mono.k0=2")
    assert (
        refused.returncode == 4 and json.loads(BucketStorage(uri).read("summary.json"))["exit"] == 4
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one machine"))
    *found, (line,) = told("table", uri)
    assert tuple(found) == expected and line.startswith(f"{uri}: shown is ")
    assert raypipe_here("status", uri).returncode == 4


def test_results_are_made_again_only_where_something_of_them_changed(mine, raypipe_here):
    """A second invocation leaves the files as they are, and puts a damaged one right."""
    run, measures = Path("work/runs/test/mono.trec"), Path("work/measures/test.tsv")

    def invoked():
        done = raypipe_here("pipeline", mine, "--out", "work")
        assert done.returncode == 0, done.stderr
        assert raypipe_here("verify", "work").returncode == 0
        summary = json.loads(Path("work/summary.json").read_text())
        files = run, measures, Path("work/table.md")
        parts = [summary[name] for name in ("systems", "measures", "notes", "files")]
        return done.stdout, parts, [file.read_bytes() for file in files], run.stat().st_mtime_ns

    first = invoked()
    assert invoked() == first  # its time too
    for file in (run, measures):
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"0", b"1"))
        assert invoked()[:3] == first[:3], file
        file.unlink()
        assert invoked()[:3] == first[:3], file
    Path("qrels.txt").write_text("1 0 p0 1\n2 0 p2 1\n")
    judged_anew = invoked()
    assert judged_anew[2][0] == first[2][0] and judged_anew[2][1] != first[2][1]
    assert judged_anew[0] != first[0]
    for log in Path("work/stores").glob("*/*/attempts.jsonl"):
        log.unlink()
    assert invoked() == judged_anew  # times are those of the results that stood


def test_results_that_a_limit_refused_twice_are_still_files_of_the_invocation(mine, raypipe_here):
    """Its second refusal leaves the files as they are, which later invocations go on covering."""
    assert raypipe_here("reindex", mine, "--out", "work").returncode == 0
    Path("passages.tsv").write_text("p0\ta lease\np1\tthe zebra\np2\trun\n")
    night = ("reindex", mine, "--out", "work", "--max-drift", "overlap@10=1")
    files = []
    for _ in range(2):
        assert raypipe_here(*night).returncode == 5
        files.append(json.loads(Path("work/summary.json").read_text())["files"])
    assert files[0] == files[1] and "runs/test/mono.trec" in files[0]
    run = Path("work/runs/test/mono.trec")
    whole = run.read_bytes()
    run.unlink()
    assert raypipe_here("verify", "work").returncode == 3
    done = raypipe_here("pipeline", mine, "--out", "work")
    assert done.returncode == 0 and "| mono " in done.stdout and run.read_bytes() == whole


def test_an_invocation_without_a_table_prints_none_however_often_it_runs(mine, raypipe_here):
    raypipe_here("pipeline", mine, "--out", "work")
    for _ in range(2):
        done = raypipe_here("pipeline", mine, "--out", "work", "--until", "vectors")
        assert (done.returncode, done.stdout.strip()) == (0, "")
