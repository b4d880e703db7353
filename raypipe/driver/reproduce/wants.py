"""The files and weights that the steps of a reproduction read, and those that are missing."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raypipe.analysis.reproductions import Input, Reproduction, inputs
from raypipe.config import Recipe
from raypipe.config.paths import recipe_inputs, training_inputs
from raypipe.driver.reproduce.plan import Planned


@dataclass(frozen=True)
class Wanted:
    """A file or folder that steps read."""

    path: str
    """As the recipes have it, absolute; or a URI."""
    what: str
    origin: str | None
    """Where it comes from; None of a path that only the user's settings name."""
    steps: tuple[str, ...]
    described: Input | None

    @property
    def shown(self) -> str:
        """The path for a reader: with the variable's name where it is not set."""
        return self.path.removeprefix("/") if self.path.startswith("/${") else self.path

    @property
    def is_there(self) -> bool:
        """Whether it exists; of a URI that is not checked here."""
        return "://" in self.path or Path(self.path).exists()

    def line(self) -> str:
        """What it is, in form and origin."""
        origin = "" if self.origin is None else f"; from {self.origin}"
        return f"{self.shown}: {self.what}{origin} (for {', '.join(self.steps)})"

    def to_json(self) -> dict[str, Any]:
        """All of it, for `json.dumps`."""
        return {
            "path": self.shown,
            "what": self.what,
            "from": self.origin,
            "steps": [*self.steps],
            "found": self.is_there,
        }


def wanted(
    of: Reproduction, out: Path, planned: Sequence[Planned], values: Mapping[str, str]
) -> list[Wanted]:
    """What the steps read and no earlier one of them makes, in their order.

    `values` are those of the variables, from `plan.variables`.
    """
    known = {_expanded(path, values): told for path, told in inputs().inputs.items()}
    steps: dict[str, dict[str, None]] = {}
    expected: dict[str, str] = {}
    made: list[Path] = []
    for each in planned:
        for path, what in _paths(each):
            if not any(_within(path, folder) for folder in made):
                steps.setdefault(path, {})[each.step.called] = None
                expected.setdefault(path, what)
        made.append(each.folder)
    found = []
    for path, of_steps in steps.items():
        told = known.get(path)
        maker = next((s for s in of.steps if _within(path, out / s.folder)), None)
        what = expected[path] if told is None else told.what
        if maker is not None:
            what = f"what the step {maker.called} makes; run it too"
        origin = None if told is None else told.from_
        found.append(Wanted(path, what, origin, tuple(of_steps), told))
    return found


def missing(found: Sequence[Wanted], unset: Sequence[str]) -> list[str]:
    """A problem for each missing file or folder, then what can be run, and how to name folders."""
    absent = [each for each in found if not each.is_there]
    problems = [f"missing: {each.line()}" for each in absent]
    whole = {step: None for each in found for step in each.steps}
    for step in {step for each in absent for step in each.steps}:
        whole.pop(step, None)
    if absent and whole:
        options = " ".join(f"--only {step}" for step in whole)
        problems.append(f"the other steps have all that they read: to run them alone, {options}")
    names = [name for name in unset if any(f"${{{name}}}" in each.path for each in absent)]
    if names:
        folders = [f"{inputs().folders[name]} for {name}" for name in names]
        problems.append(
            f"not set: {', '.join(names)}; set each to its folder, or name with --data one folder "
            f"that holds {', '.join(folders)}"
        )
    return problems


def _paths(planned: Planned) -> list[tuple[str, str]]:
    """(path, what is expected there) of one step."""
    recipe = planned.recipe
    if isinstance(recipe, Recipe):
        return [(path, what) for _, path, what in recipe_inputs(recipe)]
    return [(path, f"what {key} of the recipe reads") for key, path in training_inputs(recipe)]


def _within(path: str, folder: Path) -> bool:
    return Path(path).is_relative_to(folder.absolute())


def _expanded(path: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        path = path.replace(f"${{{name}}}", value, 1) if name in inputs().folders else path
    return os.path.abspath(path)
