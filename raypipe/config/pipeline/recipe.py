"""The recipe, as written and as loaded.

Make one with `load_recipe`. Types are checked here and in `parts.py`, the rules between parts in
`rules.py`.
"""

from typing import Annotated, Literal

from raypipe.config.fields import Listed, Location, Name, Section
from raypipe.config.pipeline.kinds import Stage, Written
from raypipe.config.pipeline.parts import Collection, Evaluate, Model, QuerySet, Resources, RunFiles


class WrittenRecipe(Section):
    """One YAML recipe as written. Queries, models and stages keep the order of the file."""

    format: Literal[1]
    name: Name
    collection: Collection
    queries: dict[Name, QuerySet] = {}
    models: dict[Name, Model] = {}
    stages: dict[Name, Written] = {}
    evaluate: Evaluate | None = None
    runs: RunFiles = RunFiles()
    resources: Resources = Resources()
    stores: Location | None = None
    """Folder or URI of the stores; None means the workspace's own."""
    overrides: Annotated[tuple[str, ...], Listed] = ()
    """The overrides that this recipe was made with; they are already applied."""


class Recipe(Section):
    """A loaded recipe: every stage is resolved to its own class, with every default filled in."""

    format: Literal[1]
    name: Name
    collection: Collection
    queries: dict[Name, QuerySet] = {}
    models: dict[Name, Model] = {}
    stages: dict[Name, Stage] = {}
    evaluate: Evaluate | None = None
    runs: RunFiles = RunFiles()
    resources: Resources = Resources()
    stores: Location | None = None
    overrides: Annotated[tuple[str, ...], Listed] = ()
