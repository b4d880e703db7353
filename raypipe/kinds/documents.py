"""Runs of documents made of their passages' runs, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from raypipe.config.fields import OWN, Count, Name, Source
from raypipe.config.parts import CIP
from raypipe.config.yaml import Problem
from raypipe.errors import InputError
from raypipe.kinds.kind import Around, Kind, Reference, absent
from raypipe.kinds.score import MonoScore, Score
from raypipe.names import of_stage
from raypipe.vocabulary import DEPTH, K_MAX, DocumentMethod, Unit

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph, System
    from raypipe.stages.documents.rank import Conversion

NUM_DOCUMENTS = 100


class DocumentRun(Kind):
    """A run of documents; `raypipe.ranking.documents` has the methods."""

    labels: ClassVar = {"documents": "run"}
    references: ClassVar = (Reference(("run",), "run"),)

    do: Literal["documents"]
    run: Name
    """An earlier stage that ranks passages."""
    method: DocumentMethod
    k: Annotated[Count | None, Source(CIP, value=K_MAX)] = None
    """For k-max-avgp only: the number of passages whose scores are averaged."""
    over: Annotated[Literal["raw", "probability"], Source(OWN)] = "raw"
    """Which score of a passage is aggregated. A reranker's raw score is that of its one unit, or
    the difference of its two; `probability` is for a reranker's scores only."""
    depth: Annotated[Count, Source(OWN)] = DEPTH
    """Documents per query."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that k is given for its method only, and that the scores have what is asked."""
        key = ("stages", name)
        if self.k is not None and self.method != "k-max-avgp":
            yield Problem((*key, "k"), f"for method k-max-avgp only, not {self.method}; remove it")
        run = around.stages.get(self.run)
        if self.over == "probability" and run is not None and not isinstance(run, Score):
            text = f"{self.run} has no probabilities; expected a stage of kind score, or over: raw"
            yield Problem((*key, "over"), text)
        if self.over == "raw" and isinstance(run, Score) and run.score == "probability":
            text = (
                f"{self.run} has probabilities, which no longer tell large raw scores apart; "
                f"remove stages.{self.run}.score, or write over: probability"
            )
            yield Problem((*key, "over"), text)

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """The stage with the k of its method."""
        return (
            self.model_copy(update=absent(self.k, k=K_MAX)) if self.method == "k-max-avgp" else self
        )

    @property
    def ranks(self) -> Unit:
        """Documents."""
        return "documents"

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """The documents of a run's passages, in the order of their aggregated scores.

        Raises:
            InputError: the passages' scores do not have what is aggregated.
        """
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.stages.documents.rank import documents_run_stage

        before = inputs[self.run]
        made = documents_run_stage(
            name,
            before.stored,
            graph.passage_map(),
            graph.sides(query_set, "documents"),
            self.method,
            self.k,
            self.conversion(graph, name),
            self.depth,
        )
        store = of_stage(name, query_set)
        stored = graph.stores.ensure(store, made)
        how = self.method if self.k is None else f"{self.method}, k={self.k}"
        return System(
            name,
            "run",
            stored,
            before.chain.then(Chain((store,))),
            f"{self.run}, {how}",
            before.model,
            before.start_weights,
            unit="documents",
        )

    def check(self, graph: Graph, name: str) -> None:
        """Refuse a reranker whose scores lack the one that is aggregated; see Kind."""
        self.conversion(graph, name)

    def conversion(self, graph: Graph, name: str) -> Conversion:
        """The conversion of the passages' scores before; scores of anything but a reranker stay.

        Raises:
            InputError: what is asked for cannot be had from the reranker's scores.
        """
        scored = graph.recipe.stages[self.run]
        if not isinstance(scored, MonoScore):
            return "none"
        model = scored.model_folder(graph, self.run)
        conventions, scale = model.reranker, model.reranker.score
        if self.over == "probability" and not model.has_probabilities:
            raise InputError(
                f"stages.{name}.over: {scored.model} scores by late interaction, whose sums of "
                "products have no probability; write over: raw"
            )
        if scored.blended(graph, model, self.run) is not None:
            return "none" if self.over == "raw" else "probability"
        if scale == "raw" and conventions.relevant_label is not None:
            raise InputError(
                f"stages.{name}: {self.run} has the score of the relevant unit of {scored.model}'s "
                "two; expected their difference: remove score, or write score: log-probability"
            )
        if scale == "probability" and self.over == "raw":
            raise InputError(
                f"stages.{name}: {self.run} has probabilities, which no longer tell large raw "
                f"scores apart; write stages.{self.run}.score: log-probability, or over: "
                "probability"
            )
        conversions: dict[tuple[str, str], Conversion] = {
            ("log-probability", "raw"): "log-odds",
            ("log-probability", "probability"): "probability-of-log",
            ("raw", "probability"): "probability",
        }
        return conversions.get((scale, self.over), "none")


class PassageRun(Kind):
    """All passages of a run's first documents, for a reranker to score."""

    labels: ClassVar = {"passages": "run"}
    references: ClassVar = (Reference(("run",), "run"),)

    do: Literal["passages"]
    run: Name
    """An earlier stage that ranks documents."""
    documents: Annotated[Count, Source("TREC 2021 DL's official runs of documents")] = NUM_DOCUMENTS
    """Documents per query whose passages are taken."""
    at_most: Count | None = None
    """Passages of a document, the first ones; None means all."""

    @property
    def reads(self) -> Unit:
        """Documents."""
        return "documents"

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """All passages of a run's first documents."""
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.stages.documents.rank import passages_run_stage

        before = inputs[self.run]
        made = passages_run_stage(
            name,
            before.stored,
            graph.passage_map(),
            graph.sides(query_set),
            self.documents,
            self.at_most,
            graph.excluded(query_set),
        )
        store = of_stage(name, query_set)
        stored = graph.stores.ensure(store, made)
        chain = before.chain.then(Chain((store,)))
        what = f"{self.run}, first {self.documents}"
        return System(name, "run", stored, chain, what, before.model, before.start_weights)
