"""Lucene indexes: of words, or of the impacts of a sparse model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from raypipe.config.fields import Name, Source
from raypipe.config.yaml import Problem
from raypipe.kinds.encode import encoded_problems
from raypipe.kinds.kind import Around, Kind, Reference
from raypipe.names import of_stage
from raypipe.vocabulary import Language

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph, System


class LuceneIndex(Kind):
    """A Lucene index: of the words of the collection, or of the impacts of a sparse model."""

    labels: ClassVar = {"index": "index"}
    references: ClassVar = (Reference(("embeddings",), "index"),)

    do: Literal["index"]
    language: Annotated[Language, Source("Anserini and Pyserini")] = "en"
    """Whose analyzer makes the words of passages and queries."""
    embeddings: Name | None = None
    """An earlier `encode` stage of a sparse model: its impacts are indexed in place of words."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that impacts are those of an `encode` stage, and have no language."""
        yield from encoded_problems(name, self.embeddings, around)
        if self.embeddings is not None and "language" in self.model_fields_set:
            yield Problem(("stages", name, "language"), "for an index of words only; remove it")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """An index of impacts if it is over embeddings, else of words."""
        over = self.embeddings
        return self if over is None else ImpactIndex(do=self.do, embeddings=over)

    def make(self, graph: Graph, name: str, inputs: Mapping[str, System]) -> System:
        """The index of the collection."""
        from raypipe.driver.recipe.graph import System
        from raypipe.stages.bm25 import IndexStage

        stored = graph.store(of_stage(name), lambda: IndexStage(graph.collection(), self.language))
        return System(name, "index", stored)


class ImpactIndex(Kind):
    """A Lucene index of impacts."""

    labels: ClassVar = {"index": "index"}
    references: ClassVar = (Reference(("embeddings",), "index"),)

    do: Literal["index"]
    embeddings: Name

    def make(self, graph: Graph, name: str, inputs: Mapping[str, System]) -> System:
        """Lucene's index of impacts; always built anew for others."""
        from raypipe.stages.impacts import ImpactIndexStage

        encoded = inputs[self.embeddings]
        index = ImpactIndexStage(graph.collection(), impacts=encoded.stored)
        return replace(encoded, name=name, stored=graph.store_of(of_stage(name), index))
