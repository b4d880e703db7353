"""What a stage of a recipe has become, for one query set: all that tables and files say of it."""

from dataclasses import dataclass

from raypipe.config.pipeline.kinds import Produces
from raypipe.driver.recipe.chain import Chain
from raypipe.storage.stored import Stored


@dataclass(frozen=True, slots=True)
class System:
    """A stage's finished store and its description."""

    name: str
    produces: Produces
    stored: Stored
    chain: Chain = Chain()
    """Stores that depend on the queries, whose time is the system's time."""
    reranks: str = ""
    """What it searched or reordered, in words."""
    model: str = ""
    start_weights: str = ""
    """What the model's weights had seen before; see `starting_weights`."""
    ranked: Stored | None = None
    """The run whose candidates these are scores of."""
