"""A recipe as the stores it stands for, one after the other; implied stages included.

`sources` has what is no stage, `kinds` how each kind of stage becomes stores.
"""

from dataclasses import dataclass, field

from raypipe.driver.recipe.kinds import system_of
from raypipe.driver.recipe.sources import Sources
from raypipe.driver.recipe.system import System


@dataclass
class Graph:
    """The systems of a recipe, each brought to completion when it is first asked for."""

    sources: Sources
    _known: dict[tuple[str, str | None], System] = field(default_factory=dict)

    def system(self, name: str, query_set: str | None) -> System:
        """A stage of the recipe and, before it, what it reads; an index has no query set.

        Raises:
            InputError: a model or file does not fit the stage.
        """
        stage = self.sources.recipe.stages[name]
        key = (name, None if stage.produces == "index" else query_set)
        if key not in self._known:
            inputs = {other: self.system(other, query_set) for other in stage.inputs}
            self._known[key] = system_of(self.sources, name, stage, query_set, inputs)
        return self._known[key]
