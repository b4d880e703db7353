"""The recipe: one YAML file as frozen, checked objects. No environment is read here."""

from raypipe.config.load import (
    load_recipe,
    load_training,
    named_recipe,
    named_training,
    purpose_of,
    read_recipe,
    recipe_names,
    recipe_text,
    verb_of,
)
from raypipe.config.parts import Collection, Evaluate, Model, QuerySet, Resources
from raypipe.config.paths import missing_inputs
from raypipe.config.recipe import Recipe, select
from raypipe.config.resolved import read_resolved, resolved_yaml

__all__ = [
    "Collection",
    "Evaluate",
    "Model",
    "QuerySet",
    "Recipe",
    "Resources",
    "load_recipe",
    "load_training",
    "missing_inputs",
    "named_recipe",
    "named_training",
    "purpose_of",
    "read_recipe",
    "read_resolved",
    "recipe_names",
    "recipe_text",
    "resolved_yaml",
    "select",
    "verb_of",
]
