import shutil
from types import SimpleNamespace

import pytest

from raypipe.driver.analysis.finished import open_finished
from raypipe.driver.analysis.measuring import judgements_of, recalls
from raypipe.errors import IncompleteError, InputError


def test_what_the_last_invocation_left_is_read(finished):
    assert finished.query_sets == ["test", "other"]
    assert finished.systems("test") == ["dense", "given", "first", "second", "least"]
    assert finished.systems("test", "documents") == []
    trec = (finished.workspace.folder / "runs/test/first.trec").read_text().splitlines()
    named = finished.named(finished.run("first", "test"), "test").to_pylist()
    assert [(r["query_id"], r["passage_id"]) for r in named] == [
        (line.split()[0], line.split()[2]) for line in trec
    ]
    assert len(finished.pairs("pairs", "test")) == 3 * 5 * 4


def test_a_query_set_without_judgements_is_told(finished):
    with pytest.raises(InputError, match="other has no judgements of passages"):
        judgements_of(finished, "other")


def test_only_a_complete_pipeline_is_opened(finished, tmp_path):
    with pytest.raises(InputError, match="not a workspace|no workspace|expected"):
        open_finished(tmp_path)
    copy = shutil.copytree(finished.workspace.folder, tmp_path / "copy")
    with (copy / "summary.json").open("r") as stream:
        text = stream.read()
    (copy / "summary.json").unlink()
    with pytest.raises(IncompleteError, match="not complete"):
        open_finished(copy)
    (copy / "summary.json").write_text(text)
    assert open_finished(copy).query_sets == ["test", "other"]


def test_recall_counts_the_grades_that_the_recipes_own_counts():
    def with_measures(*measures):
        evaluate = SimpleNamespace(measures=measures)
        return SimpleNamespace(recipe=SimpleNamespace(evaluate=evaluate))

    assert recalls(with_measures("nDCG@10", "R(rel=2)@100"), [5]) == {5: "R(rel=2)@5"}
    assert recalls(with_measures("RR(rel=2)@10"), [5, 10]) == {5: "R@5", 10: "R@10"}
