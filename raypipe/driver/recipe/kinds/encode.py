"""tokens@MODEL -> EMBEDDINGS; queries@SET -> EMBEDDINGS.SET."""

from raypipe.config.stages import Encode
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import System
from raypipe.models.folder.model_folder import starting_weights
from raypipe.names import of_stage
from raypipe.stages.encode import EncodeStage, refuse_other_model
from raypipe.stages.texts.query_tokens import QueryTokens
from raypipe.storage.store import Stored


def system(basis: Basis, name: str, stage: Encode) -> System:
    """The embeddings of the collection."""
    saw = starting_weights(basis.model(stage.model))
    stored = vectors(basis, name, stage.model, None)
    return System(name, "index", stored, model=stage.model, start_weights=saw)


def vectors(basis: Basis, name: str, model_name: str, query_set: str | None) -> Stored:
    """The embeddings of the collection, or of a query set."""

    def stage() -> EncodeStage:
        model, more = basis.model(model_name), (basis.budget_tokens, basis.needs)
        if query_set is not None:
            tokens = QueryTokens(basis.queries(query_set), model)
            return EncodeStage(tokens, model, "query", *more)
        return EncodeStage(basis.tokens(model_name), model, "passage", *more, basis.ids())

    def fits(fixed: Stored) -> bool:
        refuse_other_model(fixed, basis.model(model_name))
        return True

    return basis.once(of_stage(name, query_set), stage, fits)
