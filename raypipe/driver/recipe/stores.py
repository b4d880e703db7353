"""What a recipe's graph asks of whoever holds the stores."""

from collections.abc import Callable
from typing import Protocol

from raypipe.driver.recipe.chain import Chain
from raypipe.names import StoreName
from raypipe.stages.stage import Stage
from raypipe.storage.stored import Stored


class Stores(Protocol):
    """Finished stores by name: an invocation computes what is missing, `--frozen` compares."""

    def ensure(self, name: StoreName, stage: Stage) -> Stored:
        """The finished store of a stage."""

    def select(
        self, name: StoreName, stage: Stage, complete: Callable[[bool], tuple[Stage, Chain]]
    ) -> tuple[Stored, Chain]:
        """The finished store of a selection from a table that grows, and what it took.

        `stage` gives the spec; `complete(stands)` completes the table first and gives the stage
        that selects from it. With `stands` the selection is stored already.
        """
