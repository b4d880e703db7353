"""The stores whose computing times add up to a system's time."""

from dataclasses import dataclass

from raypipe.names import StoreName


@dataclass(frozen=True, slots=True)
class Chain:
    """Stores that depend on the queries, each once, in the order in which they are made."""

    stores: tuple[StoreName, ...] = ()
    held: bool = False
    """Whether some of their scores were computed for another request; the time is then unknown."""

    def then(self, *others: "Chain") -> "Chain":
        """This chain's stores, then the others' stores that are not among them."""
        chains = (self, *others)
        stores = dict.fromkeys(store for chain in chains for store in chain.stores)
        return Chain(tuple(stores), any(chain.held for chain in chains))
