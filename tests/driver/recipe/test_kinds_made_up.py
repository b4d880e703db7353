"""A kind of stage nobody wrote yet: its fields, a function and a stage; every command has it.

The package is copied, the kind added to the copy, and the commands run in a process that has it.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import raypipe

PACKAGE = Path(raypipe.__file__).parent
FILES = {
    "kinds/first.py": '''\
"""The first passages of a collection, whatever the query."""

from typing import Annotated, ClassVar, Literal

from raypipe.config.fields import OWN, Count, Source
from raypipe.kinds.kind import Kind
from raypipe.names import of_stage


class First(Kind):
    """The first passages of the collection, whatever the query."""

    labels: ClassVar = {"first": "run"}

    do: Literal["first"]
    depth: Annotated[Count, Source(OWN)] = 3

    def make(self, graph, name, query_set, inputs):
        """RUN.SET."""
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.stages.first import first_stage

        store, sides = of_stage(name, query_set), graph.sides(query_set)
        stage = first_stage(name, sides, self.depth, graph.excluded(query_set))
        stored = graph.stores.ensure(store, stage)
        return System(name, "run", stored, Chain((store,)), "collection", "none")
''',
    "stages/first.py": '''\
"""The first passages of a collection as a run."""

from functools import partial

import numpy as np

from raypipe.stages.run_tables import dense_table
from raypipe.stages.tables import TableStage
from raypipe.storage.store import spec_over


def first_stage(name, sides, depth, excluded):
    def block(shard):
        places = excluded.depth(depth, shard.start, shard.stop)
        rows = np.tile(np.arange(places), (shard.num_rows, 1))
        scores = np.tile(np.linspace(1, 0.5, places, dtype=np.float32), (shard.num_rows, 1))
        return excluded.cut(dense_table(shard.start, rows, scores, scored_by=name), depth)

    params, stores = {"depth": depth, "name": name}, sides.stores() | excluded.stores()
    spec = partial(spec_over, "first", 1, params, stores, produces="run")
    return TableStage(name, spec, stores, block, lambda: depth * sides.queries.num_rows)
''',
}
EDITS = {
    "kinds/registry.py": [
        ("\nPlainIndex = ", "from raypipe.kinds.first import First\n\nPlainIndex = "),
        ("PlainRanking = ", "PlainRanking = First | "),
    ],
}
"""The registry's import and line."""
RECIPE = """\
format: 1
name: made-up
collection: {format: msmarco-v1, input: collection.tsv}
queries:
  test: {file: queries.tsv, qrels: qrels.txt}
stages:
  start: {do: first}
  again: {do: first, depth: 2}
  both:  {do: fuse, runs: [start, again], method: rrf}
evaluate: {measures: [RR@10], baseline: start}
resources: {backend: inline}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A copy of the package that has the kind, beside a collection and a recipe of it."""
    folder = tmp_path_factory.mktemp("made-up")
    shutil.copytree(PACKAGE, folder / "raypipe", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        assert not (PACKAGE / name).exists()
        (folder / "raypipe" / name).write_text(text)
    for name, edits in EDITS.items():
        path = folder / "raypipe" / name
        text = path.read_text()
        for old, new in edits:
            assert text.count(old) == 1, f"{name}: {old}"
            text = text.replace(old, new)
        path.write_text(text)
    (folder / "collection.tsv").write_text("".join(f"p{i}\ttext {i}\n" for i in range(5)))
    (folder / "queries.tsv").write_text("q1\tone\nq2\ttwo\n")
    (folder / "qrels.txt").write_text("q1 0 p1 1\nq2 0 p0 1\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


COMMANDS = """
import json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print is no answer
from raypipe.cli.main import run
for line in sys.stdin:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code, _ = run(json.loads(line))
    print(json.dumps([code, out.getvalue(), err.getvalue()]), file=answers, flush=True)
"""
"""A line of arguments in, a line with exit code, stdout and stderr out."""


@pytest.fixture(scope="module")
def command(place):
    child = subprocess.Popen(
        [sys.executable, "-c", COMMANDS],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(*arguments, expected=0):
        print(json.dumps(arguments), file=child.stdin, flush=True)
        done = subprocess.CompletedProcess(arguments, *json.loads(child.stdout.readline()))
        assert done.returncode == expected, done.stderr
        return done

    yield run
    child.communicate()


@pytest.fixture(scope="module")
def finished(place, command):
    command("pipeline", "recipe.yaml", "--out", "work")
    return place / "work"


def test_it_is_run_fused_measured_and_described(finished):
    run = (finished / "runs" / "test" / "start.trec").read_text().splitlines()
    assert [line.split()[2] for line in run] == ["p0", "p1", "p2"] * 2
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["measures"]["test"]["start"]["RR@10"] == pytest.approx((1 / 2 + 1) / 2)
    system = summary["systems"]["test"]["start"]
    assert (system["reranks"], system["model"]) == ("collection", "none")
    assert system["ms_per_query"] is not None
    row = next(line for line in (finished / "table.md").read_text().splitlines() if "start" in line)
    assert "0.7500" in row
    assert "depth: 3  # default; raypipe's choice" in (finished / "recipe.yaml").read_text()


def test_what_its_stage_says_is_forecast(command, finished):
    plan = json.loads(command("plan", "recipe.yaml", "--out", "planned", "--json").stdout)
    for store, lines in {"start.test": 3 * 2, "again.test": 2 * 2, "both.test": 10}.items():
        line = plan["stages"][store]
        assert (line["rows"], line["bytes"]) == (2, 11 * lines + 1700), store
    assert plan["notes"] == []
    again = json.loads(command("plan", "recipe.yaml", "--out", "work", "--json").stdout)
    assert all(line["reused"] for line in again["stages"].values())


def test_a_recipe_of_it_is_checked_like_any(command, place):
    told = command("pipeline", "recipe.yaml", "--out", "bad", "stages.start.dept=2", expected=2)
    assert "stages.start.dept: unknown key; did you mean depth?" in told.stderr
    told = command(
        "pipeline", "recipe.yaml", "--out", "bad", "stages.both.runs=[start, x]", expected=2
    )
    assert (
        "expected an earlier stage of kind aggregate or documents or first or fuse" in told.stderr
    )


def test_a_changed_setting_of_it_is_refused_when_frozen(command, finished):
    shutil.copytree(finished, finished.parent / "frozen")
    again = ("pipeline", "recipe.yaml", "--out", "frozen", "--frozen")
    command(*again)
    told = command(*again, "stages.again.depth=1", expected=4)
    assert "again.test: params.depth 2 -> 1" in told.stderr


def test_its_run_is_exported_with_ids(command, finished, place):
    command("export", "work/stores/start.test", "--to", "parquet", "--out", "exported")
    table = pq.read_table(place / "exported" / "run.parquet")
    assert table["passage_id"].to_pylist() == ["p0", "p1", "p2"] * 2
    assert table["query_id"].to_pylist() == ["q1"] * 3 + ["q2"] * 3


def test_passages_without_a_place_are_left_out_of_its_run(command, place):
    (place / "q.tsv").write_text("p1\tone\np4\ttwo\n")
    (place / "own.txt").write_text("p1 0 p0 1\n")
    sets = "queries={test: {file: q.tsv, qrels: own.txt, exclude: own-id}}"
    command("pipeline", "recipe.yaml", "--out", "excluding", sets)
    run = (place / "excluding" / "runs" / "test" / "start.trec").read_text().splitlines()
    assert [line.split()[2] for line in run] == ["p0", "p2", "p3", "p0", "p1", "p2"]


def test_a_kind_that_would_rank_them_is_a_bug_of_its_own(place):
    copied, sets = place / "forgetful", "queries={test: {file: q.tsv, exclude: own-id}}"
    shutil.copytree(place / "raypipe", copied / "raypipe")
    kind = copied / "raypipe" / "kinds" / "first.py"
    text = kind.read_text().replace("graph.excluded(query_set)", "NOTHING")
    kind.write_text(text + "\n\nfrom raypipe.stages.excluded import NOTHING\n")
    (place / "q.tsv").write_text("p1\tone\np4\ttwo\n")
    words = [
        sys.executable,
        "-P",
        "-m",
        "raypipe",
        "pipeline",
        "recipe.yaml",
        "--out",
        "forgot",
        sets,
    ]
    environment = {**os.environ, "PYTHONPATH": str(copied)}
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "first: asks for no graph.excluded(query_set)" in done.stderr


@pytest.mark.slow
def test_its_stores_are_kept_by_gc_while_they_are_referred_to(command, finished):
    command("gc", "work", "--yes")
    command("verify", "work")
    assert (finished / "stores" / "start.test").is_dir()
