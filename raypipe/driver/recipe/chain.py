"""The stores whose time is a system's time."""

from dataclasses import dataclass

from raypipe.names import StoreName


@dataclass(frozen=True, slots=True)
class Chain:
    """Stores that depend on the queries, in the order in which they are made, each once."""

    stores: tuple[StoreName, ...] = ()
    held: bool = False
    """Scores among them were paid for by another request: the time is then not known."""

    def then(self, *others: "Chain") -> "Chain":
        """This chain's stores, then those of the others that are not among them."""
        chains = (self, *others)
        stores = dict.fromkeys(store for chain in chains for store in chain.stores)
        return Chain(tuple(stores), any(chain.held for chain in chains))
