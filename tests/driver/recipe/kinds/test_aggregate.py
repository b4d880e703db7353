"""Aggregated pairs in a recipe: their ties, and rerankers over rerankers."""

import json
import shutil
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from reranking_recipe import lines

from raypipe import schema
from raypipe.evaluation.exports import lowered
from raypipe.report.finished import open_finished

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
    stored = open_finished(work).run("duo-binary", "test")
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


def test_a_runs_file_is_its_stores_scores_lowered(work):
    stored = open_finished(work).run("duo-binary", "test")
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
    stored = open_finished(work).run("fourth-max", "test")
    first = stored.filter(pa.array([row == 0 for row in stored["query_row"].to_pylist()]))
    by = [(name, len([*group])) for name, group in groupby(first["scored_by"].to_pylist())]
    assert by == [("fourth-max", 3), ("third-sum", 2), ("second", 3), ("mono", 4), ("first", 8)]
