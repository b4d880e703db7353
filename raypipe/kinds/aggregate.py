"""A duoBERT model's pairs made into a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from raypipe.config.fields import OWN, Count, Name, Seed, Source
from raypipe.config.yaml import Problem
from raypipe.kinds.kind import Around, Kind, Reference, absent
from raypipe.kinds.score import DuoScore, Score
from raypipe.names import of_stage
from raypipe.vocabulary import Aggregation, Tail

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph, System


class Aggregate(Kind):
    """Turns a duoBERT model's pairs into a run; `raypipe.ranking.aggregate` has the equations."""

    labels: ClassVar = {"aggregate": "run"}
    references: ClassVar = (Reference(("pairs",), "pairs"),)

    do: Literal["aggregate"]
    pairs: Name
    """An earlier `score` stage with k1."""
    method: Aggregation
    """How the probabilities of a candidate's pairs become its score."""
    k1: Count | None = None
    """At most the k1 of the pairs; None means the same k1."""
    m: Count | None = None
    """Number of pairs drawn for each candidate; for `sample` only."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """The seed of the draw; for `sample` only."""
    tail: Annotated[Tail, Source(OWN)] = "keep"

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that the pairs hold what k1 and the draw ask for."""
        key = ("stages", name)
        pairs = around.stages.get(self.pairs)
        if self.method == "sample" and self.m is None:
            yield Problem((*key, "m"), "missing; expected the number drawn for each candidate")
        if self.method != "sample" and self.m is not None:
            yield Problem((*key, "m"), f"for method sample only, not {self.method}; remove it")
        if self.method != "sample" and self.seed:
            yield Problem((*key, "seed"), f"for method sample only, not {self.method}; remove it")
        if not isinstance(pairs, Score) or pairs.k1 is None:
            return
        if self.k1 is not None and self.k1 > pairs.k1:
            text = f"found {self.k1}, more than the k1 of {self.pairs}, {pairs.k1}; raise that one"
            yield Problem((*key, "k1"), text)
        if pairs.sample is None:
            return
        same = (self.k1 in (None, pairs.k1), self.m == pairs.sample, self.seed == pairs.seed)
        if self.method != "sample" or not all(same):
            text = (
                f"{self.pairs} holds {pairs.sample} drawn pairs of each of {pairs.k1} candidates, "
                f"seed {pairs.seed}: only method sample with that k1, m and seed can be made of "
                "them"
            )
            yield Problem((*key, "method"), text)

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """The stage with the k1 of the pairs if none is given."""
        pairs = stages[self.pairs]
        return (
            self.model_copy(update=absent(self.k1, k1=pairs.k1))
            if isinstance(pairs, DuoScore)
            else self
        )

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """A run whose first candidates are ordered by their aggregated probabilities."""
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.stages.scoring.candidates import Request
        from raypipe.stages.scoring.rerank import aggregate_stage

        pairs = inputs[self.pairs]
        assert pairs.ranked is not None and pairs.chain.asked  # as all pairs have
        request = Request(k1=self.k1, sample=self.m, seed=self.seed)
        aggregate = aggregate_stage(
            name,
            pairs.ranked,
            pairs.stored,
            request,
            self.method,
            self.tail,
            graph.sides(query_set),
        )
        store = of_stage(name, query_set)
        stored = graph.stores.ensure(store, aggregate)
        *below, of_pairs = pairs.chain.asked
        needed = (*below, replace(of_pairs, request=request))  # it may need fewer than were scored
        chain = replace(pairs.chain, asked=needed).then(Chain((store,)))
        return System(
            name,
            "run",
            stored,
            chain,
            pairs.reranks,
            pairs.model,
            pairs.start_weights,
            ranked=pairs.ranked,
            first=pairs.first,
            pairs=pairs.stored,
        )
