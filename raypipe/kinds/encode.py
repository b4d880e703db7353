"""Embeddings of the collection, or the impacts of a sparse model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from raypipe.config.fields import Name
from raypipe.config.yaml import Problem
from raypipe.kinds.kind import Around, Kind, Reference
from raypipe.names import of_stage

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph
    from raypipe.driver.recipe.system import System
    from raypipe.stages.encode import EncodeStage
    from raypipe.storage.store import Stored


class Encode(Kind):
    """Embeddings of the collection, one per passage."""

    labels: ClassVar = {"encode": "index"}
    references: ClassVar = (Reference(("model",), "model"),)

    do: Literal["encode"]
    model: Name

    def make(self, graph: Graph, name: str, inputs: Mapping[str, System]) -> System:
        """The embeddings of the collection."""
        from raypipe.driver.recipe.system import System
        from raypipe.models.folder.model_folder import starting_weights

        stored = graph.store(of_stage(name), *stage_of(graph, self.model, None))
        saw = starting_weights(graph.model(self.model))
        return System(name, "index", stored, model=self.model, start_weights=saw)


def vectors(graph: Graph, name: str, model_name: str, query_set: str | None) -> Stored:
    """The embeddings of the collection, or of a query set."""
    return graph.store(of_stage(name, query_set), *stage_of(graph, model_name, query_set))


def stage_of(
    graph: Graph, model_name: str, query_set: str | None
) -> tuple[Callable[[], EncodeStage], Callable[[Stored], bool]]:
    """The stage of these embeddings, and whether those of a generation are of the same model."""
    from raypipe.stages.encode import EncodeStage, refuse_other_model
    from raypipe.stages.texts.query_tokens import QueryTokens

    def stage() -> EncodeStage:
        model, more = graph.model(model_name), (graph.budget_tokens, graph.needs)
        encode = EncodeStage
        if model.encoder.is_sparse:
            from raypipe.stages.sparse import SparseStage as encode
        if query_set is not None:
            tokens = QueryTokens(graph.queries(query_set), model)
            return encode(tokens, model, "query", *more)
        return encode(graph.tokens(model_name), model, "passage", *more, graph.ids())

    def fits(fixed: Stored) -> bool:
        refuse_other_model(fixed, graph.model(model_name))
        return True

    return stage, fits


def encoded_problems(name: str, wanted: str | None, around: Around) -> Iterator[Problem]:
    """A problem if the stage that `wanted` names makes no embeddings."""
    over = around.stages.get(wanted or "")
    if over is not None and not isinstance(over, Encode):
        text = f"expected an encode stage; {wanted} is of kind {over.do}"
        yield Problem(("stages", name, "embeddings"), text)
