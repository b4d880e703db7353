"""The settings of a recipe, each with where its value came from."""

from raypipe.analysis.section import Table, Value
from raypipe.config import Recipe, settings
from raypipe.config.training import Training

GIVEN, COMMAND = "recipe", "command line"


def settings_table(recipe: Recipe | Training) -> Table:
    """Setting, value, and its source: the command line, the recipe, or what the default is from."""
    overridden = [text.partition("=")[0] for text in recipe.overrides]
    rows: list[list[Value]] = []
    for name, value, source in settings(recipe):
        if name == "overrides":
            continue
        if any(name == key or name.startswith(f"{key}.") for key in overridden):
            source = COMMAND
        rows.append([name, value, source or GIVEN])
    return Table("Settings", ["setting", "value", "source"], rows)
