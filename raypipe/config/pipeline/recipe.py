"""The recipe: as it is written, and as it is once loaded.

`load_recipe` is the way to make one: types are checked here and in `parts.py`, what ties the parts
together in `rules.py`.
"""

from typing import Annotated, Literal

from raypipe.config.fields import Listed, Location, Name, Section
from raypipe.config.pipeline.kinds import Stage, Written
from raypipe.config.pipeline.parts import Collection, Evaluate, Model, QuerySet, Resources


class WrittenRecipe(Section):
    """One YAML recipe. Queries, models and stages keep the order of the file."""

    format: Literal[1]
    name: Name
    collection: Collection
    queries: dict[Name, QuerySet] = {}
    models: dict[Name, Model] = {}
    stages: dict[Name, Written] = {}
    evaluate: Evaluate | None = None
    resources: Resources = Resources()
    stores: Location | None = None
    """Folder or URI of the stores; None means the workspace's own."""
    overrides: Annotated[tuple[str, ...], Listed] = ()
    """A record of the overrides that made this recipe: applied already, never again."""


class Recipe(Section):
    """A loaded recipe: every stage is of its own kind, with every default filled in."""

    format: Literal[1]
    name: Name
    collection: Collection
    queries: dict[Name, QuerySet] = {}
    models: dict[Name, Model] = {}
    stages: dict[Name, Stage] = {}
    evaluate: Evaluate | None = None
    resources: Resources = Resources()
    stores: Location | None = None
    overrides: Annotated[tuple[str, ...], Listed] = ()
