"""The stores whose computing times add up to a system's time, and the scores that it asks for."""

from dataclasses import dataclass, field

from raypipe.names import StoreName
from raypipe.stages.scoring.requests import Request
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
    held: bool = False
    """Whether some of their scores were computed for another request; the time is then unknown."""
    asked: tuple[Asked, ...] = ()
    """Each once, the last one last."""
    whole: bool = True
    """Whether no store of scores that was made for the chain is missing from `stores`."""

    def then(self, *others: "Chain") -> "Chain":
        """This chain's stores, then the others' stores that are not among them."""
        chains = (self, *others)
        return Chain(
            tuple(dict.fromkeys(store for chain in chains for store in chain.stores)),
            any(chain.held for chain in chains),
            tuple(dict.fromkeys(asked for chain in chains for asked in chain.asked)),
            all(chain.whole for chain in chains),
        )
