"""Aggregated pairs in a recipe: their ties, and rerankers over rerankers."""

import json
import shutil
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from reranking_recipe import lines

from raypipe import schema
from raypipe.cli.main import run as command
from raypipe.driver.verbs.true_scores import true_scores
from raypipe.evaluation.exports import lowered

MORE = """
  duo-binary: {do: aggregate, pairs: duo, method: binary}
  second: {do: score, run: mono, model: mono, k0: 8}
  third: {do: score, run: second, model: duo, k1: 5}
  third-sum: {do: aggregate, pairs: third, method: sum}
  fourth: {do: score, run: third-sum, model: duo, k1: 3}
  fourth-max: {do: aggregate, pairs: fourth, method: max}
"""


@pytest.fixture(scope="module")
def work(finished, run, tmp_path_factory):
    """The reranking workspace with more stages, over a copy of its stores."""
    root = tmp_path_factory.mktemp("more")
    shutil.copytree(finished[0] / "stores", root / "stores")
    run(root / "more", root / "stores", more=MORE)
    return root / "more"


@pytest.mark.slow
def test_ties_of_binary_keep_the_order_of_the_stage_below(work):
    mono, binary = lines(work, "mono"), lines(work, "duo-binary")
    stored = true_scores(work / "runs" / "test" / "duo-binary.trec")
    scores = stored["score"].to_pylist()
    tied = False
    for query, found in binary.items():
        own, scores = scores[: len(found)], scores[len(found) :]
        before = {passage: place for place, passage in enumerate(mono[query])}
        assert own[:4] == sorted(own[:4], reverse=True) and max(own[:4]) <= 3
        for _, group in groupby(zip(own[:4], found[:4], strict=True), key=lambda each: each[0]):
            places = [before[passage] for _, passage in group]
            assert places == sorted(places)
            tied |= len(places) > 1
        assert found[4:] == mono[query][4:]
    assert tied


def test_compare_reports_the_ties_of_the_true_scores(work, files, capsys):
    folder = work / "runs" / "test"
    qrels = files / "qrels.test.txt"
    arguments = ["compare", str(folder / "mono.trec"), str(folder / "duo-binary.trec")]
    assert command([*arguments, "--qrels", str(qrels), "--measures", "RR", "--json"])[0] == 0
    ties = json.loads(capsys.readouterr().out)["ties"]
    found = ties[str(folder / "duo-binary.trec")]
    stored = true_scores(folder / "duo-binary.trec")
    head = stored.filter(
        pa.array([name == "duo-binary" for name in stored["scored_by"].to_pylist()])
    )
    keys = list(zip(head["query_row"].to_pylist(), head["score"].to_pylist(), strict=True))
    expected = [key for key in keys if keys.count(key) > 1]
    assert found["stored"] and found["num_rows"] == len(expected) > 0
    assert found["num_queries"] == len({query for query, _ in expected})
    assert found["num_lowered"] == 0 and found["tail_from"] is None
    # A file that was changed since, or moved away, is read as it is.
    moved = folder.parent / "duo-binary.trec"
    moved.write_bytes((folder / "duo-binary.trec").read_bytes())
    assert true_scores(moved) is None
    assert true_scores(folder / "duo-binary.tsv") is None
    assert true_scores(folder / "unknown.trec") is None


def test_a_runs_file_is_its_stores_scores_lowered(work):
    stored = true_scores(work / "runs" / "test" / "duo-binary.trec")
    assert stored.schema == schema.RUN
    text = (work / "runs" / "test" / "duo-binary.trec").read_text()
    written = np.array([line.split()[4] for line in text.splitlines()], np.float32)
    expected = lowered(stored["score"].to_numpy(), stored["query_row"].to_numpy())
    assert written.tolist() == expected.tolist()


def test_four_rerankers_over_each_other_each_reorder_the_first_of_the_one_below(work):
    names = ("first", "mono", "second", "third-sum", "fourth-max")
    runs = [lines(work, name) for name in names]
    changed = 0
    for depth, below, above in zip((12, 8, 5, 3), runs[:-1], runs[1:], strict=True):
        for query, passages in below.items():
            assert sorted(above[query][:depth]) == sorted(passages[:depth])
            assert above[query][depth:] == passages[depth:]
            changed += above[query] != passages
    assert changed > 0
    # The second is the same model over the first's best 8, which it leaves as they are.
    assert runs[2] == runs[1]
    body = json.loads((work / "summary.json").read_text())
    reranks = {name: body["systems"]["test"][name]["reranks"] for name in names}
    assert (reranks["fourth-max"], reranks["first"]) == ("third-sum, first 3", "as read")
    stored = true_scores(work / "runs" / "test" / "fourth-max.trec")
    first = stored.filter(pa.array([row == 0 for row in stored["query_row"].to_pylist()]))
    by = [(name, len([*group])) for name, group in groupby(first["scored_by"].to_pylist())]
    assert by == [("fourth-max", 3), ("third-sum", 2), ("second", 3), ("mono", 4), ("first", 8)]
