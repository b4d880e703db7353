import numpy as np
import pytest

from raypipe.report.cells import Setting, cell_run, wanted_pairs
from raypipe.report.measures import means
from raypipe.report.tradeoff import tradeoff
from raypipe.stages.scoring.scored import keys_of


def cells(section):
    (table,) = section.tables
    found = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return {(cell["k0"], cell["k1"], cell["method"]): cell for cell in found}


def test_a_cell_is_what_a_recipe_with_its_numbers_makes(finished, analysed):
    (section,) = tradeoff(finished, "test")
    found = cells(section)
    assert section.name == "tradeoff of pairs"
    assert set(found) == {
        (8, 0, "-"), (8, 5, "sum"), (8, 5, "binary"), (8, 5, "min"), (8, 5, "max"),
    }  # fmt: skip
    told = finished.summary["measures"]["test"]
    for system, cell in (
        ("first", (8, 0, "-")),
        ("second", (8, 5, "sum")),
        ("least", (8, 5, "min")),
    ):
        assert {m: found[cell][m] for m in ("RR@10", "R@5")} == told[system]
    assert (
        found[8, 5, "sum"]["inferences, paper"]
        == 8 + 20
        == found[8, 5, "sum"]["inferences, needed"]
    )


def test_a_cell_without_its_pairs_is_left_out_and_the_pairs_are_counted(finished, monkeypatch):
    """With 5 candidates the first reranker's best 5 are others than its best 5 of 8."""
    monkeypatch.setattr("raypipe.report.cells.K0S", (5,))
    (section,) = tradeoff(finished, "test")
    lines = finished.run("dense", "test").to_pylist()
    held = finished.pairs("pairs", "test").to_pylist()
    scored = {(line["query_row"], line["passage_row"], line["other_row"]) for line in held}
    absent = set()
    for query in range(3):
        top = [x["passage_row"] for x in lines if x["query_row"] == query and x["rank"] <= 5]
        absent |= {(query, i, j) for i in top for j in top if i != j} - scored
    assert absent
    (note,) = [note for note in section.notes if "not scored" in note]
    assert f"4 of 10 cells need pairs that were not scored, {len(absent)} in all" in note
    assert {cell[:2] for cell in cells(section)} == {(5, 0), (8, 0), (8, 5)}


def test_derived_times_add_each_rerankers_inferences(finished):
    (section,) = tradeoff(finished, "test")
    found, told = cells(section), finished.summary["systems"]["test"]
    derived = "ms/query, derived"
    assert found[8, 0, "-"][derived] == pytest.approx(told["first"]["ms_per_query"])
    assert found[8, 5, "sum"][derived] == pytest.approx(told["second"]["ms_per_query"])


def test_the_cheapest_cell_within_the_loss_is_named_as_chosen(finished):
    (section,) = tradeoff(finished, "test", loss=1.0)
    (note,) = [note for note in section.notes if "cheapest" in note]
    assert "k0 8, no second reranker" in note and "chosen on these queries" in note


def test_sample_is_the_mean_of_ten_draws_and_their_spread(finished, monkeypatch):
    monkeypatch.setattr("raypipe.report.cells.DRAWS", (2,))
    (section,) = tradeoff(finished, "test")
    cell = cells(section)[8, 5, "sample"]
    pairs, run = finished.pairs("pairs", "test"), finished.run("first", "test")
    held, scores = keys_of(pairs), pairs["score"].to_numpy()
    values = []
    for seed in range(10):
        setting = Setting(8, 5, "sample", 2)
        drawn = cell_run(run, setting, wanted_pairs(run, setting, seed), held, scores)
        values.append(means(finished, "test", drawn, ["RR@10"])["RR@10"])
    assert len(set(values)) > 1
    assert cell["RR@10"] == pytest.approx(np.mean(values))
    assert cell["spread of RR@10"] == pytest.approx(np.std(values, ddof=1))
    assert (cell["m"], cell["inferences, paper"], cell["inferences, needed"]) == (2, 8 + 5, 8 + 10)
