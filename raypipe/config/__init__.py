"""The recipe: one YAML file as frozen, checked objects. No environment is read here."""

from raypipe.config.load import load_recipe, load_training, read_recipe
from raypipe.config.named import named_recipe, named_training
from raypipe.config.packaged import (
    named_recipe,
    named_sweep,
    named_training,
    purpose_of,
    recipe_names,
    recipe_text,
    verb_of,
)
from raypipe.config.parts import Collection, Evaluate, Model, QuerySet, Resources
from raypipe.config.paths import missing_inputs, missing_training_inputs
from raypipe.config.pipeline.load import load_recipe, read_recipe
from raypipe.config.pipeline.parts import Collection, Evaluate, Model, QuerySet, Resources
from raypipe.config.pipeline.paths import missing_inputs
from raypipe.config.pipeline.recipe import Recipe
from raypipe.config.pipeline.select import select
from raypipe.config.pipeline.sweep import Point, sweep_points
from raypipe.config.recipe import Recipe, select
from raypipe.config.resolved import read_resolved, resolved_yaml, settings
from raypipe.config.training import Training
from raypipe.config.training.load import load_training
from raypipe.config.training.paths import missing_training_inputs
from raypipe.config.training.recipe import Training
from raypipe.config.yaml.resolved import read_resolved, resolved_yaml, settings

__all__ = [
    "Collection",
    "Evaluate",
    "Model",
    "QuerySet",
    "Recipe",
    "Resources",
    "Training",
    "load_recipe",
    "load_training",
    "missing_inputs",
    "missing_training_inputs",
    "named_recipe",
    "named_training",
    "purpose_of",
    "read_recipe",
    "read_resolved",
    "recipe_names",
    "recipe_text",
    "resolved_yaml",
    "select",
    "settings",
    "verb_of",
]
