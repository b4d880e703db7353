"""Embeddings of the collection, whole or truncated, or the impacts of a sparse model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from raypipe.config.fields import Count, Name
from raypipe.config.yaml import Problem
from raypipe.kinds.kind import Around, Kind, Reference
from raypipe.names import StoreName, of_stage

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph, System
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
        from raypipe.driver.recipe.graph import System
        from raypipe.models.folder.model_folder import starting_weights

        stored = graph.store(of_stage(name), *stage_of(graph, self.model, None))
        saw = starting_weights(graph.model(self.model))
        return System(name, "index", stored, model=self.model, start_weights=saw)


class Truncate(Kind):
    """The first dimensions of another stage's embeddings, of length 1 again if the model's are.

    One encoding so gives several widths, of models that were trained for it (Matryoshka).
    """

    labels: ClassVar = {"truncate": "index"}
    references: ClassVar = (Reference(("embeddings",), "index"),)

    do: Literal["truncate"]
    embeddings: Name
    """An earlier `encode` stage."""
    dims: Count
    """How many dimensions are kept."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that it is over embeddings."""
        yield from encoded_problems(name, self.embeddings, around)

    def make(self, graph: Graph, name: str, inputs: Mapping[str, System]) -> System:
        """The truncated embeddings of the collection."""
        from dataclasses import replace

        encoded = inputs[self.embeddings]
        return replace(encoded, name=name, stored=vectors(graph, name, encoded.model, None))


def vectors(graph: Graph, name: str, model_name: str, query_set: str | None) -> Stored:
    """The embeddings of the collection, or of a query set, that the stage `name` makes."""
    stage = graph.recipe.stages[name]
    if isinstance(stage, Truncate):
        from raypipe.stages.truncate import TruncateStage

        whole = vectors(graph, stage.embeddings, model_name, query_set)
        side = "passage" if query_set is None else "query"
        cut = TruncateStage(whole, stage.dims, graph.model(model_name), side)
        return graph.store_of(of_stage(name, query_set), cut)
    return graph.store(of_stage(name, query_set), *stage_of(graph, model_name, query_set))


def stage_of(
    graph: Graph, model_name: str, query_set: str | None
) -> tuple[Callable[[], EncodeStage], Callable[[Stored], bool]]:
    """The stage of these embeddings, and whether those of a generation are of the same model."""
    from raypipe.stages.encode import EncodeStage, refuse_other_model
    from raypipe.stages.tokenize import QueryTokens

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


def query_stores(graph: Graph, name: str, query_set: str) -> tuple[StoreName, ...]:
    """The names of the stores with the query vectors of the stage `name`, in the order made."""
    stage = graph.recipe.stages[name]
    whole = query_stores(graph, stage.embeddings, query_set) if isinstance(stage, Truncate) else ()
    return (*whole, of_stage(name, query_set))


def encode_of(stages: Mapping[str, Kind], name: str) -> Encode:
    """The encode stage that the embeddings of the stage `name` come from."""
    stage = stages[name]
    if isinstance(stage, Truncate):
        stage = stages[stage.embeddings]
    assert isinstance(stage, Encode)  # a rule of the recipe
    return stage


def encoded_problems(
    name: str, wanted: str | None, around: Around, *, truncated: bool = False
) -> Iterator[Problem]:
    """A problem if the stage that `wanted` names makes no embeddings, or truncated ones."""
    over, kinds = around.stages.get(wanted or ""), (Encode, Truncate) if truncated else (Encode,)
    if over is not None and not isinstance(over, kinds):
        expected = "an encode or truncate stage" if truncated else "an encode stage"
        text = f"expected {expected}; {wanted} is of kind {over.do}"
        yield Problem(("stages", name, "embeddings"), text)
