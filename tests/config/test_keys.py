"""`raypipe recipes --keys` has every key that recipes have."""

from functools import cache
from pathlib import Path

import pytest
import yaml
from packaged_recipes import EXPERIMENTS

from raypipe.cli.main import run
from raypipe.config import keys
from raypipe.config.fields import Section
from raypipe.config.phases import Own
from raypipe.config.recipe import WrittenRecipe
from raypipe.config.training import Training

ROOT = Path(__file__).parents[2]
NAMED = ("queries", "models", "stages", "collections", "train", "dev", "guard")
"""Keys below which names are chosen by the author."""
RECIPES = [*sorted((ROOT / "jobs/configs").glob("*.yaml")), *EXPERIMENTS]


keys_of = cache(keys.keys_of)


@cache
def listed():
    """The keys of pipelines and trainings."""
    text = keys_of() + keys_of("train")
    return {row.split("`")[1] for row in text.splitlines() if row[:3] == "| `"}


@pytest.mark.parametrize("recipe", [WrittenRecipe, Training, Own], ids=lambda each: each.__name__)
def test_the_keys_have_every_property_of_the_types_json_schema(recipe):
    schema = recipe.model_json_schema()
    sections = [schema, *schema.get("$defs", {}).values()]
    expected = {name for section in sections for name in section.get("properties", {})}
    parts = {part for key in listed() for part in key.split(".")}
    assert len(expected) > 1 and expected <= parts


def written(value, key=""):
    """The dotted keys of a recipe, with NAME for its names; runs and settings have any keys."""
    if isinstance(value, dict) and not key.endswith((".runs", ".settings")):
        for name, below in value.items():
            yield from written(below, f"{key}.{'NAME' if key[1:] in NAMED else name}")
    elif isinstance(value, list) and key == ".phases":
        for phase in value:
            own = {name for name in phase if name in Own.model_fields}
            yield from (f"phases[].{name}" for name in own)
            yield from written({name: each for name, each in phase.items() if name not in own})
    else:
        yield key[1:]


def test_the_keys_have_every_key_of_a_packaged_recipe():
    for path in RECIPES:
        assert set(written(yaml.load(path.read_text(), yaml.CSafeLoader))) <= listed()


def test_a_key_has_its_values_its_default_and_its_docstring():
    rows = {row.split("`")[1]: row for row in keys_of("train").splitlines() if "`" in row}
    assert rows["optimiser.clip_after"].startswith(
        "| `optimiser.clip_after` | `step`, `batch` | `step` | `batch` clips the sum of the "
    )
    assert " | `same`, number | `0.6` | " in rows["near_copy"]
    assert rows["steps"] == "| `steps` | whole number | - | Updates of the weights. |"
    assert " | whole number | - | Keep only so many " in rows["train.NAME.documents.best"]
    assert " | whole number | `1000` | " in rows["dev.NAME.k"]
    assert " | text, list: text | must be set | Run files " in rows["train.NAME.pairs.runs"]
    assert " | `true`, `false` | `true` | Whether z = 0 " in rows["train.NAME.blend.none"]
    text = "Queries with their examples over one collection."
    assert rows["train.NAME"] == f"| `train.NAME` | section | must be set | {text} |"
    assert " | mapping: any plain value | - | Instead of " in rows["model.settings"]
    of_stages = keys_of()
    assert "| `collection.max_passages` | whole number | `6000` | " in of_stages
    assert "| `stages` | mapping: stage | - | " in of_stages
    assert "| `stages.NAME.runs` | mapping: text | must be set | " in of_stages


def test_the_command_prints_the_keys_of_a_recipe_of_one_stage_or_of_a_training(capsys):
    assert run(["recipes", "--keys"]) == (0, "complete")
    whole = capsys.readouterr().out
    assert "| `collection.format` |" in whole and "| `stages.NAME.k0` |" in whole
    assert run(["recipes", "score", "--keys"]) == (0, "complete")
    stage = capsys.readouterr().out
    assert "| `stages.NAME.k0` |" in stage and "collection.format" not in stage
    assert run(["recipes", "train", "--keys"])[0] == 0
    assert "| `near_copy` |" in capsys.readouterr().out
    code, reason = run(["recipes", "scroe", "--keys"])
    assert code == 2 and "did you mean score?" in reason


class Above(Section):
    """A section."""

    one: int
    """The first,
    on two lines."""
    two: int


class Below(Above):
    """A section with the fields of another."""

    two: int
    """Told here."""


def test_a_field_has_the_docstring_below_it_and_a_section_those_that_it_inherits():
    assert keys.texts_of(Above) == {"one": "The first, on two lines."}
    assert keys.texts_of(Below) == {"one": "The first, on two lines.", "two": "Told here."}
