import shutil
from types import SimpleNamespace

import pytest

from raypipe.config.load import load_recipe
from raypipe.driver.summaries import write_results, write_summary
from raypipe.errors import IncompleteError, InputError
from raypipe.evaluation.measures import evaluate
from raypipe.report.finished import (
    Finished,
    judgements_of,
    measured,
    needed,
    open_finished,
    recalls,
)


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


def test_each_query_set_has_systems_of_its_own(finished):
    """`other` has two of the three queries of `test`."""
    told = finished.summary["systems"]
    assert list(told) == ["test", "other"] and finished.summary["format"] == 3
    for query_set, num_queries in (("test", 3), ("other", 2)):
        assert [len(finished.queries(query_set)), *told[query_set]] == [
            num_queries, "dense", "given", "first", "second", "least",
        ]  # fmt: skip
        counts = {
            name: [of_system[key] for key in ("inferences", "computed", "copied")]
            for name, of_system in told[query_set].items()
            if "inferences" in of_system
        }
        both = num_queries * (8 + 5 * 4)
        assert counts == {
            "first": [num_queries * 8, num_queries * 8, 0],
            "second": [both, num_queries * 5 * 4, 0],
            "least": [both, 0, 0],
        }
        assert all(of_system["ms_per_query"] != 0 for of_system in told[query_set].values())


def test_a_query_set_without_judgements_is_told(finished):
    with pytest.raises(InputError, match="other has no judgements of passages"):
        judgements_of(finished, "other")


def test_only_a_complete_pipeline_is_opened(finished, tmp_path):
    with pytest.raises(InputError, match="not a workspace|no workspace|expected"):
        open_finished(tmp_path)
    copy = shutil.copytree(finished.workspace.folder, tmp_path / "copy")
    refused = {**finished.summary, "status": "failed", "exit": 5}
    for results in (refused, None):
        (copy / "results.json").unlink()
        if results is not None:
            write_results(copy, results)
        write_summary(copy, refused)
        with pytest.raises(IncompleteError, match=r"no results stand, .* not complete \(failed\)"):
            open_finished(copy)
    write_summary(copy, finished.summary)  # as versions without results.json left it
    with pytest.raises(InputError, match="no runs of a finished one; run its recipe again"):
        open_finished(copy)
    write_results(copy, finished.summary)
    assert open_finished(copy).query_sets == ["test", "other"]
    (copy / "summary.json").unlink()  # it says how the last one ended, and nothing of results
    assert open_finished(copy).query_sets == ["test", "other"]
    (copy / "results.json").unlink()
    with pytest.raises(IncompleteError, match="summary.json is not there"):
        open_finished(copy)


def test_recall_counts_the_grades_that_the_recipes_own_counts():
    def with_measures(*measures):
        evaluate = SimpleNamespace(measures=measures)
        return SimpleNamespace(recipe=SimpleNamespace(evaluate=evaluate))

    assert recalls(with_measures("nDCG@10", "R(rel=2)@100"), [5]) == {5: "R(rel=2)@5"}
    assert recalls(with_measures("RR(rel=2)@10"), [5, 10]) == {5: "R@5", 10: "R@10"}


def test_a_first_stage_has_no_reranker_anywhere_below_it():
    recipe = load_recipe(
        """
format: 1
name: mixed
collection: {format: msmarco-v1, input: passages.tsv}
queries: {test: {file: queries.tsv}}
models: {mono: {path: mono}}
stages:
  one: {do: read, runs: {test: one.trec}}
  two: {do: read, runs: {test: two.trec}}
  both: {do: fuse, runs: [one, two], method: rrf}
  mono: {do: score, run: one, model: mono, k0: 10}
  after: {do: fuse, runs: [mono, two], method: rrf}
  again: {do: fuse, runs: [after, both], method: rrf}
""",
        source="mixed",
    )
    opened = Finished(None, recipe, {"systems": {"test": dict.fromkeys(recipe.stages, {})}})
    assert opened.first_stages("test") == ["one", "two", "both"]


def test_lines_that_change_no_measure_are_not_needed_and_no_value_changes(finished):
    """All measures for which lines are left out, with and without cutoffs, against the whole."""
    judged = finished.judgements("test")
    alike = ["AP", "nDCG", "P@3", "R@7", "RR", "RR@2", "Rprec", "Success@4", "nDCG@10", "AP@5"]
    for system in finished.systems("test"):
        run = finished.run(system, "test")
        named = finished.named(run, "test")
        for measures in (alike, ["RR@2", "P@3"]):
            assert len(needed(finished, "test", run, measures)) < len(run)
            found = measured(finished, "test", run, measures)
            whole = evaluate(named, judged, measures)
            assert found.per_query == whole.per_query and found.mean == whole.mean
            assert found.missing_queries == whole.missing_queries
        assert needed(finished, "test", run, ["NumRet", "AP"]) is run


def test_judged_passages_are_known_by_their_rows_in_order(finished):
    judged = finished.judged_rows("test")
    assert list(zip(*(column.tolist() for column in judged), strict=True)) == [
        (0, 1), (0, 2), (0, 9), (1, 7), (2, 3),
    ]  # fmt: skip
