from raypipe.config import load_recipe
from raypipe.driver.recipe.compare import refuse_changes
from raypipe.driver.upkeep.status import open_workspace


def test_settings_are_compared_and_nothing_is_written(finished):
    root, _ = finished
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    refuse_changes(load_recipe(root / "work" / "recipe.yaml"), open_workspace(root / "work"))
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
