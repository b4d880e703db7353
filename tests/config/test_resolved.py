from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from raypipe.config.fields import Source
from raypipe.config.load import load_recipe
from raypipe.config.recipe import Recipe
from raypipe.config.resolved import read_resolved, resolved_yaml
from raypipe.errors import InputError


def test_overrides_are_in_the_record_and_not_applied_again(text: str):
    recipe = load_recipe(text, overrides=["stages.bm25.depth=7"])
    again = load_recipe(resolved_yaml(recipe), overrides=["stages.bm25.depth=8"])
    assert again.overrides == ("stages.bm25.depth=7", "stages.bm25.depth=8")
    assert again.stages["bm25"].depth == 8  # type: ignore[union-attr]


def parts(model: type[BaseModel]) -> set[type[BaseModel]]:
    from raypipe.config.parts import Collection, Evaluate, Model, QuerySet, Resources
    from raypipe.kinds.registry import KINDS, Stage
    from raypipe.kinds.search import Bm25, Fixed, Tune, Tuned

    kinds = {Collection, Evaluate, Model, QuerySet, Resources, Bm25, Fixed, Tune, Tuned}
    kinds |= {*KINDS.values(), *get_args(Stage)}
    return {model, *kinds}


def test_every_scalar_default_has_a_source():
    without = [
        f"{part.__name__}.{name}"
        for part in parts(Recipe)
        for name, field in part.model_fields.items()
        if isinstance(field.default, str | int | float)
        and not any(isinstance(entry, Source) for entry in field.metadata)
    ]
    assert without == []


def test_stage_names_that_yaml_would_change_survive(text: str):
    text = text.replace("  lucene:", "  no:").replace("index: lucene", "index: 'no'")
    text = text.replace("dense", "'1e3'").replace("bm25", "'2021'")
    recipe = load_recipe(text)
    assert list(recipe.stages) == ["no", "embeddings", "2021", "1e3", "fused"]
    assert load_recipe(resolved_yaml(recipe)) == recipe


@given(
    relevance=st.text(st.characters(exclude_categories=["Cs", "Cn", "Co"]), min_size=1),
    k=st.floats(min_value=0, allow_nan=False, allow_infinity=False),
)
def test_any_text_and_number_survives(relevance: str, k: float):
    try:
        yaml.safe_load(relevance)
    except yaml.reader.ReaderError:
        return  # signs that no YAML file may hold
    except yaml.YAMLError:
        pass
    recipe = load_recipe(
        {
            "format": 1,
            "name": "x",
            "collection": {"format": "python-docs"},
            "queries": {"test": {"builtin": "test"}},
            "models": {"m": {"path": "minilm"}},
            "stages": {
                "i": {"do": "index"},
                "a": {"do": "search", "index": "i"},
                "b": {"do": "search", "index": "i"},
                "c": {"do": "fuse", "runs": ["a", "b"], "method": "rrf", "k": k},
            },
            "evaluate": {"measures": ["AP"], "relevance": relevance},
        }
    )
    assert recipe.evaluate and recipe.evaluate.relevance == relevance
    assert load_recipe(resolved_yaml(recipe)) == recipe


def test_a_resolved_recipe_is_read_as_it_was_written(text: str, tmp_path: Path):
    file = tmp_path / "recipe.yaml"
    file.write_text(resolved_yaml(load_recipe(text, overrides=["stores=/a/$${b}"])))
    held = read_resolved(file)
    assert held["stores"] == "/a/${b}" and held["stages"]["bm25"]["bm25"] == {"k1": 0.9, "b": 0.4}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no such file"),
        (b"\xff\xfe", "expected a resolved recipe, found: 'utf-8'"),
        (b"a: [", "line 1: not YAML"),
        (b"a: " + b"[" * 5000, "nested too deeply"),
        (b"a: 9999-99-99", "line 1: a: .*month must be"),
        (b"x" * 2_000_000, "at most 1,000,000 characters"),
        (b"- a", "expected a recipe, found a list"),
        (b"", "expected a recipe, found nothing"),
        (b"stores: [1]", "stores: expected a place, found a list"),
        (b"stores: 5", "stores: expected a place, found 5"),
        (b"a: ${b", "names no|expected \\$"),
    ],
)
def test_a_damaged_resolved_recipe_is_told_with_its_remedy(tmp_path: Path, content, told: str):
    file = tmp_path / "recipe.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=f"(?s){file}: .*{told}.*run its recipe again"):
        read_resolved(file)
