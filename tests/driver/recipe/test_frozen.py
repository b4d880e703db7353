"""`--frozen` compares; a table of scores it leaves alone."""

from raypipe.config import load_recipe
from raypipe.driver.recipe.frozen import refuse_changes
from raypipe.driver.recipe.score_table import ScoreTable
from raypipe.driver.upkeep.status import open_workspace


def test_what_is_selected_from_a_table_is_compared_and_the_table_is_not_asked(
    finished, monkeypatch
):
    root, _ = finished
    before, asked = sorted(root.rglob("*")), []
    monkeypatch.setattr(ScoreTable, "parts", lambda *given, **named: asked.append(given))
    refuse_changes(load_recipe(root / "work" / "recipe.yaml"), open_workspace(root / "work"))
    assert asked == [] and sorted(root.rglob("*")) == before
