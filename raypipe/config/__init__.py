"""The recipe: one YAML file as frozen, checked objects. No environment is read here."""

from raypipe.config.load import load_recipe
from raypipe.config.load_training import load_training, missing_training_inputs
from raypipe.config.named import named_recipe
from raypipe.config.packaged import recipe_names, recipe_text, verb_of
from raypipe.config.paths import missing_inputs
from raypipe.config.recipe import Collection, Evaluate, Model, QuerySet, Recipe, Resources
from raypipe.config.resolved import resolved_yaml
from raypipe.config.select import select
from raypipe.config.stage_kinds import (
    Aggregate,
    Bm25,
    Encode,
    Fuse,
    Index,
    Read,
    Score,
    Search,
    Stage,
    Tune,
    input_names,
)
from raypipe.config.training import Training

__all__ = [
    "Aggregate",
    "Bm25",
    "Collection",
    "Encode",
    "Evaluate",
    "Fuse",
    "Index",
    "Model",
    "QuerySet",
    "Read",
    "Recipe",
    "Resources",
    "Score",
    "Search",
    "Stage",
    "Training",
    "Tune",
    "input_names",
    "load_recipe",
    "load_training",
    "missing_inputs",
    "missing_training_inputs",
    "named_recipe",
    "recipe_names",
    "recipe_text",
    "resolved_yaml",
    "select",
    "verb_of",
]
