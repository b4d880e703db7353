"""A recipe as its stores, one after the other, including implied stages.

`basis` makes the stores that are not stages; `kinds` makes those of each kind of stage.
"""

from dataclasses import dataclass, field, replace

from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.kinds import system_of
from raypipe.driver.recipe.system import System


@dataclass
class Graph:
    """The systems of a recipe, each completed when it is first requested."""

    basis: Basis
    _known: dict[tuple[str, str | None], System] = field(default_factory=dict)

    def system(self, name: str, query_set: str | None) -> System:
        """The system of a stage, after completing what it reads; an index has no query set.

        Raises:
            InputError: a model or file does not fit the stage.
        """
        stage = self.basis.recipe.stages[name]
        key = (name, None if stage.produces == "index" else query_set)
        if key not in self._known:
            inputs = {other: self.system(other, query_set) for other in stage.inputs}
            made = system_of(self.basis, name, stage, query_set, inputs)
            told = [line for one in (*inputs.values(), made) for line in one.approximate]
            self._known[key] = replace(made, approximate=tuple(dict.fromkeys(told)))
        return self._known[key]
