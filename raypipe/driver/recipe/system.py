"""A completed stage for one query set, the stores it took, and the scores that it asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raypipe.kinds.kind import Produces
from raypipe.names import StoreName
from raypipe.stages.scoring.candidates import Request
from raypipe.storage.store import Stored
from raypipe.vocabulary import Unit

if TYPE_CHECKING:
    from raypipe.stages.ann.recall import Recall


@dataclass(frozen=True, slots=True)
class ScoreRequest:
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
    asked: tuple[ScoreRequest, ...] = ()
    """Each once, the last one last."""

    def then(self, *others: Chain) -> Chain:
        """This chain's stores, then the others' stores that are not among them."""
        chains = (self, *others)
        return Chain(
            tuple(dict.fromkeys(store for chain in chains for store in chain.stores)),
            tuple(dict.fromkeys(asked for chain in chains for asked in chain.asked)),
        )


@dataclass(frozen=True, slots=True)
class System:
    """A stage's finished store and its description."""

    name: str
    produces: Produces
    stored: Stored
    chain: Chain = Chain()
    """The stores that depend on the queries; their times add up to the system's time."""
    reranks: str = ""
    """What the system searched or reordered, in words."""
    model: str = ""
    start_weights: str = ""
    """What the model's weights were trained on; see `starting_weights`."""
    unit: Unit = "passages"
    """What a run ranks."""
    ranked: Stored | None = None
    """The run whose candidates were scored."""
    first: int = 0
    """Of its candidates, how many of each query the stage asks for."""
    pairs: Stored | None = None
    """The pairs that were aggregated."""
    recall: Recall | None = None
    """Of an approximate search, against exact search."""
    approximate: tuple[str, ...] = ()
    """What every table says below it of each approximate search that the system goes back to."""
    unordered: int = 0
    """The most candidates of a query, if the run is a file without ranks and scores."""
    note: str = ""
    """What every table with the system says below it."""
