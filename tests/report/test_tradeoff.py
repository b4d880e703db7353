"""A cell chosen on one query set is shown on the others."""

import json

import numpy as np
import pytest

from raypipe.cli.main import run
from raypipe.errors import InputError
from raypipe.evaluation.significance import difference, randomisation_tests
from raypipe.report import contents
from raypipe.report.cells import Setting, cell_run, wanted_pairs
from raypipe.report.finished import Finished, measured
from raypipe.report.tradeoff import chosen, tradeoff
from raypipe.stages.scoring.candidates import keys_of


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


def test_a_cell_without_its_pairs_is_left_out_and_counted(finished, monkeypatch):
    """With 5 candidates the first reranker's best 5 are others than its best 5 of 8."""
    monkeypatch.setattr("raypipe.report.cells.K0S", (5,))
    (section,) = tradeoff(finished, "test")
    assert (
        "4 of 10 cells need pairs that were not scored, and are left out; a larger k1 in the "
        "recipe scores more pairs"
    ) in section.notes
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
        values.append(measured(finished, "test", drawn, ["RR@10"]).mean["RR@10"])
    assert len(set(values)) > 1
    assert cell["RR@10"] == pytest.approx(np.mean(values))
    assert cell["spread of RR@10"] == pytest.approx(np.std(values, ddof=1))
    assert (cell["m"], cell["inferences, paper"], cell["inferences, needed"]) == (2, 8 + 5, 8 + 10)


SAMPLED = {"drawn": {"do": "aggregate", "pairs": "pairs", "method": "sample", "m": 2, "seed": 3}}


@pytest.fixture(scope="module")
def judged(analysed, tmp_path_factory) -> Finished:
    """Both query sets have judgements, other ones."""
    qrels = tmp_path_factory.mktemp("qrels") / "other.txt"
    qrels.write_text("q1 0 p4 1\nq1 0 p11 1\nq2 0 p20 1\nq3 0 p8 1\nq3 0 p3 1\n")
    given = {"other": {"qrels": str(qrels)}, "stages": SAMPLED}
    return analysed(name="judged", **given)


def rows_of(section):
    (table,) = section.tables
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_the_cells_chosen_on_one_set_are_shown_on_another_with_their_differences(judged):
    (section,) = chosen(judged, "other", ["test"], loss=0.0)
    (of_other,), (of_test,) = tradeoff(judged, "other"), tradeoff(judged, "test")

    def cells(found):
        (table,) = found.tables
        return [dict(zip(table.columns, row, strict=True)) for row in table.rows]

    best = min(cells(of_other), key=lambda c: (-c["RR@10"], c["inferences, needed"]))
    name = [best[key] for key in ("k0", "k1", "method", "m")]
    (there,) = [c for c in cells(of_test) if [c[k] for k in ("k0", "k1", "method", "m")] == name]
    found = rows_of(section)
    assert [found["best"][k] for k in ("k0", "k1", "method", "m")] == name
    costs = ("RR@10", "inferences, paper", "inferences, needed", "ms/query, derived")
    assert {k: found["best"][k] for k in costs} == {k: there[k] for k in costs}
    assert found["best"]["difference"] is None
    assert section.name == "tradeoff of pairs chosen on other" and section.query_set == "test"
    assert any(f"{best['RR@10']:.4f}" in note for note in section.notes)


def test_the_recipes_own_cells_are_compared_with_the_best_of_the_other_set(judged):
    (section,) = chosen(judged, "other", ["test"], loss=1.0)
    found = rows_of(section)
    assert set(found) == {"cheapest", "best", "recipe: second", "recipe: least", "recipe: drawn"}
    assert (found["cheapest"]["k0"], found["cheapest"]["k1"]) == (8, 0), "any loss is allowed"
    means = judged.summary["measures"]["test"]
    for system in ("second", "least", "drawn"):
        assert found[f"recipe: {system}"]["RR@10"] == means[system]["RR@10"]
    drawn = found["recipe: drawn"]
    assert (drawn["m"], drawn["inferences, paper"], drawn["inferences, needed"]) == (2, 13, 18)

    best = {("-", 0): "first", ("sum", 5): "second", ("min", 5): "least"}
    system = best.get((found["best"]["method"], found["best"]["k1"]))
    assert system is not None, "the best cell is one of the recipe's systems here"

    def values(name):
        run_of = judged.run(name, "test")
        return measured(judged, "test", run_of, ["RR@10"]).per_query["RR@10"]

    expected = difference(values("least"), values(system))
    row = found["recipe: least"]
    assert (row["difference"], row["low"], row["high"]) == (
        expected.mean, expected.low, expected.high,
    )  # fmt: skip
    deltas = np.array([values("least")[q] - v for q, v in values(system).items()])
    assert row["p"] == randomisation_tests([deltas])[0]


@pytest.mark.parametrize(
    ("choose_on", "shown", "problem"),
    [
        ("test", ["test"], "not shown on the same one"),
        ("nothing", ["test"], "expected a query set with judgements of passages, one of test"),
        ("test", [], "expected another query set"),
    ],
)
def test_a_choice_that_cannot_be_shown_is_refused(judged, choose_on, shown, problem):
    with pytest.raises(InputError, match=problem):
        chosen(judged, choose_on, shown)


def test_a_set_without_judgements_is_refused(finished):
    with pytest.raises(InputError, match="--choose-on other: expected .* one of test"):
        chosen(finished, "other", ["test"])


def test_the_command_chooses_on_one_set_and_the_page_on_none(judged, capsys):
    folder = str(judged.workspace.folder)
    arguments = ["analyse", "tradeoff", folder, "--json"]
    assert run([*arguments, "--choose-on", "test"])[0] == 0
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert (section["query_set"], section["name"]) == ("other", "tradeoff of pairs chosen on test")
    assert run([*arguments, "--choose-on", "test", "--queries", "test"])[0] == 2
    assert "the same one" in capsys.readouterr().err
    on_page = [s.name for name in ("test", "other") for s in contents._of(judged, name)]
    assert on_page.count("tradeoff of pairs") == 2 and not any("chosen" in n for n in on_page)


def test_the_recipes_own_cell_has_the_k0_of_the_set_that_is_shown(analysed, tmp_path):
    """The longest list of `other` has 4 passages, that of `test` 10, of which k0 asks for 8."""
    (tmp_path / "other.txt").write_text("q1 0 p4 1\nq3 0 p8 1\n")
    lengths, other = {"q1": 4, "q3": 4, "q2": 10}, {"qrels": f"{tmp_path}/other.txt"}
    opened = analysed(name="own", first="given", lengths=lengths, other=other)
    (section,) = chosen(opened, "other", ["test"])
    (table,) = section.tables
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    own = rows["recipe: second"]
    assert (own["k0"], own["inferences, paper"]) == (8, 8 + 20)
    told = opened.summary["systems"]["test"]["second"]["inferences"]
    assert own["inferences, needed"] == pytest.approx(told / 3)
