"""tokens@MODEL -> EMBEDDINGS; tokens@MODEL.SET -> EMBEDDINGS.SET (the queries' side)."""

from raypipe.config.stages import Encode
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import System
from raypipe.models.folder.model_folder import starting_weights
from raypipe.names import of_stage
from raypipe.stages.encode import EncodeStage, refuse_other_model
from raypipe.storage.store import Stored


def system(basis: Basis, name: str, stage: Encode) -> System:
    """The embeddings of the collection."""
    saw = starting_weights(basis.model(stage.model))
    stored = vectors(basis, name, stage.model, None)
    return System(name, "index", stored, model=stage.model, start_weights=saw)


def vectors(basis: Basis, name: str, model_name: str, query_set: str | None) -> Stored:
    """The embeddings of the collection, or of a query set."""
    side = "passage" if query_set is None else "query"

    def stage() -> EncodeStage:
        tokens, model = basis.tokens(model_name, query_set), basis.model(model_name)
        hashes = basis.hashes() if query_set is None else None
        return EncodeStage(tokens, model, side, basis.budget_tokens, basis.needs, hashes)

    def fits(fixed: Stored) -> bool:
        refuse_other_model(fixed, basis.model(model_name))
        return True

    return basis.once(of_stage(name, query_set), stage, fits)
