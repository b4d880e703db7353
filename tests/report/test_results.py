from dataclasses import replace

import pytest

from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError
from raypipe.evaluation.compare import compare
from raypipe.evaluation.tables import as_csv, markdown
from raypipe.report.finished import open_finished
from raypipe.report.results import results


@pytest.fixture(scope="module")
def work(small_workspace):
    return open_finished(small_workspace[0])


def test_the_table_is_the_pipelines_own(small_workspace, work):
    _, outcome, _ = small_workspace
    assert markdown(results(work)) == outcome.table == markdown(results(work, "dev", ["RR@10"]))


def test_p_is_that_of_compare_over_the_measures_of_the_table(work):
    (table,) = results(work, "dev", ["nDCG@10", "RR@10"])
    names = ["dense", "given", "fused"]
    runs = {name: work.named(work.run(name, "dev"), "dev") for name in names}
    qrels = read_qrels(work.workspace.folder.parent / "qrels.txt")
    expected = compare(runs, qrels, ["nDCG@10", "RR@10"], baseline="given")
    found = [str(replace(row, unjudged=0.0)) for row in table.comparisons.values()]
    assert found == [str(replace(row, unjudged=0.0)) for row in expected.rows], "no table shows it"
    assert table.family == 4
    assert [row.system for row in table.rows] == names and table.num_topics == 2
    assert [row.values["RR@10"] for row in table.rows][1] == 0.25


def test_counts_are_told_and_not_tested(work):
    (table,) = results(work, None, ["NumRet", "RR@10"])
    assert {measure for _, measure in table.comparisons} == {"RR@10"} and table.family == 2
    dense, given, fused = table.rows
    assert (dense.values["NumRet"], given.values["NumRet"]) == (4.0, 2.0)
    assert dense.differences["NumRet"].mean == 1.0 and given.differences == {}
    (counts,) = results(work, None, ["NumRet"])
    assert counts.comparisons == {} and fused.differences["RR@10"].mean


def test_without_a_baseline_among_the_systems_nothing_is_compared(work):
    evaluate = work.recipe.evaluate.model_copy(update={"baseline": None})
    recipe = work.recipe.model_copy(update={"evaluate": evaluate})
    (table,) = results(replace(work, recipe=recipe))
    assert table.comparisons == {} and table.baseline is None and table.rows[1].values["RR@10"]


def test_a_workspace_of_before_has_the_notes_that_can_be_known(work):
    """A summary of format 1 had none."""
    before = {name: value for name, value in work.summary.items() if name != "notes"}
    (table,) = results(replace(work, summary=before))
    assert table.notes == table.about == ["2 topics", "topics: two of them", "relevant: grade 1"]


@pytest.mark.parametrize(
    ("query_set", "measures", "words"),
    [
        ("x", (), "--queries x: expected one of dev"),
        (None, ("nope@10",), "measure 'nope@10'"),
    ],
)
def test_what_is_not_there_is_refused(work, query_set, measures, words):
    with pytest.raises(InputError, match=words):
        results(work, query_set, measures)


def test_a_query_set_without_judgements_is_refused(work):
    work = replace(work)
    work.__dict__["_judgements"] = {}
    with pytest.raises(InputError, match="no query set was measured"):
        results(work)
    with pytest.raises(InputError, match="dev has no judgements of passages"):
        results(work, "dev")


def test_queries_that_a_run_lacks_are_warned_of(given, caplog):
    results(given, "test")
    assert "one: 2 queries of the qrels are not in the run and count 0: q4, q9" in caplog.text


def test_csv_without_a_comparison_has_no_columns_for_it(given):
    (table,) = results(given, "test")
    alone = replace(table, rows=[replace(row, differences={}) for row in table.rows])
    header, *rows = (line.split(",") for line in as_csv([alone]).splitlines())
    assert header[-3:] == list(table.measures)
    assert rows and all(len(row) == len(header) for row in rows)
