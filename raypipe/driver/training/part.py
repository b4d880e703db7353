"""One training of an invocation: a whole recipe, or one phase of it, and where its files are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from raypipe.config import Training
from raypipe.driver.workspace import Workspace


@dataclass(frozen=True)
class Part:
    """A training, and what the phases before it left."""

    recipe: Training
    phase: str | None = None
    """None if the recipe has no phases."""
    is_last: bool = True
    new_head: bool = False
    """See Job."""
    seen: str | None = None
    """What the weights that it begins from were trained on; None: what their folder says."""
    models: Mapping[str, Path] = field(default_factory=dict)
    """The models of all earlier phases, by phase."""

    @property
    def named(self) -> str:
        """The recipe's name, with the phase."""
        return self.recipe.name if self.phase is None else f"{self.recipe.name}.{self.phase}"

    def folder(self, workspace: Workspace, name: str) -> Path:
        """The folder `name` of the workspace, or the phase's own inside it."""
        own = workspace.folder / name
        return own if self.phase is None else own / self.phase

    def of_collection(self, workspace: Workspace, name: str) -> Path:
        """The folder of a collection's own workspace; a name has no dot, so none meets another."""
        own = name if self.phase is None else f"{self.phase}.{name}"
        return workspace.folder / "collections" / own

    def model_name(self) -> str:
        """The name of the model's folder in OUT/models: the recipe's is the last phase's."""
        return self.recipe.name if self.is_last else self.named
