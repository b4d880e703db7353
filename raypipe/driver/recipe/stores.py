"""The interface through which a recipe's graph gets its stores."""

from typing import Protocol

from raypipe.names import StoreName
from raypipe.stages.stage import Stage
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored


class Stores(Protocol):
    """Finished stores by name. An invocation computes missing ones; `--frozen` only compares."""

    def fixed(self, name: StoreName) -> Stored | None:
        """The store of a generation that is read instead of the recipe's files; None otherwise."""

    def ensure(self, name: StoreName, stage: Stage) -> Stored:
        """The finished store of a stage."""

    def find(self, name: StoreName, spec: StageSpec) -> Stored | None:
        """The store of this specification if it is complete; nothing is computed."""
