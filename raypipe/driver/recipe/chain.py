"""The stores whose computing times add up to a system's time, and the scores that it asks for."""

from dataclasses import dataclass, field

from raypipe.names import StoreName
from raypipe.stages.scoring.candidates import Request
from raypipe.storage.store import Stored


@dataclass(frozen=True, slots=True)
class Asked:
    """Candidates of a run that a reranker is asked to score, whoever scored them."""

    table: str
    """The fingerprint of what a score depends on: model, collection and queries."""
    request: Request
    run_identity: str
    run: Stored = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Chain:
    """Stores that depend on the queries, each once, in the order in which they are made."""

    stores: tuple[StoreName, ...] = ()
    asked: tuple[Asked, ...] = ()
    """Each once, the last one last."""

    def then(self, *others: "Chain") -> "Chain":
        """This chain's stores, then the others' stores that are not among them."""
        chains = (self, *others)
        return Chain(
            tuple(dict.fromkeys(store for chain in chains for store in chain.stores)),
            tuple(dict.fromkeys(asked for chain in chains for asked in chain.asked)),
        )
