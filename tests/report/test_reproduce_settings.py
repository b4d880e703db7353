"""The settings of figures, as published and as our analyses have them."""

from raypipe.report.published import Figures, reproduction
from raypipe.report.reproduce import settings_table


def table_of(*figures, here):
    of = reproduction("multistage").model_copy(update={"settings": [*figures]})
    table = settings_table(of, here)
    assert table.columns == ["of", "setting", "published", "here", "says"]
    return table.rows


def test_settings_of_figures_stand_beside_those_that_were_computed():
    rows = table_of(Figures(source="multistage-2019", step="s"), here={"k0": [8, 20], "k1": [0, 5]})
    found = {(row[0], row[1]): row[2:4] for row in rows}
    name = "Nogueira et al. 2019, Figure 3"
    assert found[name, "k1"] == ["0, 10, 20, 30, 40, 50", "0, 5"]
    assert found[name, "m"] == ["10, 20, 30, 40", None]
    assert found["Nogueira et al. 2019, Figure 2", "k0"] == ["50, 100, 200, 500, 1000", "8, 20"]
    assert found["Nogueira et al. 2019, Table 3", None] == [None, None]


def test_without_a_step_nothing_was_computed_here():
    rows = table_of(Figures(source="multistage-2019"), here={"k0": [8]})
    assert {row[3] for row in rows} == {None}
