"""A generation that is held: its stores, and the recipe that names them."""

from contextlib import ExitStack
from dataclasses import dataclass, field

from raypipe import config
from raypipe.config.stages import Bm25Search, DenseSearch, Encode, Index
from raypipe.errors import IncompleteError
from raypipe.names import Role, StoreName, of_collection, of_stage
from raypipe.storage.generations import Generation
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored


@dataclass(frozen=True)
class Held:
    """A generation whose stores stay until `end` is closed, or what a workspace refers to."""

    stores: Storage
    generation: Generation
    recipe: config.Recipe
    """That of the last invocation in the workspace."""
    end: ExitStack = field(default_factory=ExitStack)

    @property
    def title(self) -> str:
        """The generation in messages, or the workspace if it has none."""
        if not self.generation.number:
            return f"the workspace of {self.generation.name}"
        return f"generation {self.generation.number} of {self.generation.name}"

    @property
    def passages(self) -> Stored:
        """The collection."""
        return self.stored(of_collection(Role.PASSAGES))

    def has(self, name: StoreName) -> bool:
        """Whether the generation names such a store."""
        return str(name) in self.generation.stores

    def stored(self, name: StoreName) -> Stored:
        """One of its stores.

        Raises:
            IncompleteError: it has none of this name, or the store was deleted.
        """
        found = self.generation.stored(self.stores, str(name))
        if found is None:
            raise IncompleteError(
                f"{self.title}: its store {name} was deleted; open another generation, or run its "
                "recipe again"
            )
        return found

    def stages(self) -> list[str]:
        """The recipe's stages of which the generation has a store."""
        sets = [None, *self.recipe.queries]
        return [
            name
            for name in self.recipe.stages
            if any(self.has(of_stage(name, query_set)) for query_set in sets)
        ]

    def indexes(self) -> list[str]:
        """Those that hold a Lucene index or embeddings."""
        kinds = (Index, Encode)
        return [name for name in self.stages() if isinstance(self.recipe.stages[name], kinds)]

    def searches(self) -> list[str]:
        """The recipe's searches of those."""
        made, indexes = self.recipe.stages.items(), self.indexes()
        kinds = (Bm25Search, DenseSearch)
        return [name for name, s in made if isinstance(s, kinds) and s.index in indexes]


def listed(names: list[str], most: int = 10) -> str:
    """The first names, for a message."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "") or "none"
