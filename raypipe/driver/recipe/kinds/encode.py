"""tokens@MODEL -> EMBEDDINGS; tokens@MODEL.SET -> EMBEDDINGS.SET (the queries' side)."""

from raypipe.config.pipeline.kinds import Encode
from raypipe.driver.recipe.sources import Sources
from raypipe.driver.recipe.system import System
from raypipe.models.folder.loading import starting_weights
from raypipe.names import of_stage
from raypipe.stages.encode import EncodeStage
from raypipe.storage.stored import Stored


def system(sources: Sources, name: str, stage: Encode) -> System:
    """The embeddings of the collection."""
    saw = starting_weights(sources.model(stage.model))
    stored = vectors(sources, name, stage.model, None)
    return System(name, "index", stored, model=stage.model, start_weights=saw)


def vectors(sources: Sources, name: str, model_name: str, query_set: str | None) -> Stored:
    """The embeddings of the collection, or of a query set."""
    side = "passage" if query_set is None else "query"

    def stage() -> EncodeStage:
        tokens, model = sources.tokens(model_name, query_set), sources.model(model_name)
        return EncodeStage(tokens, model, side, sources.budget_tokens, sources.needs)

    return sources.once(of_stage(name, query_set), stage)
