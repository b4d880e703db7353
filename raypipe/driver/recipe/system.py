"""A completed stage for one query set, with everything that tables and files say of it."""

from dataclasses import dataclass

from raypipe.config.kind import Produces
from raypipe.driver.recipe.chain import Chain
from raypipe.stages.ann.recall import Recall
from raypipe.storage.store import Stored
from raypipe.vocabulary import Unit


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
    note: str = ""
    """What every table with the system says below it."""
