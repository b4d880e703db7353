"""Searches of an index: by BM25, by inner products, or approximate."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, assert_never

from pydantic import Field

from raypipe.config.fields import (
    OWN,
    AutoOrCount,
    Count,
    Fraction,
    Listed,
    Measure,
    Name,
    NotNegative,
    Section,
    Source,
)
from raypipe.config.yaml import Key, Problem
from raypipe.kinds.ann import Ann, centres_of, lists_of
from raypipe.kinds.encode import Encode, Truncate, query_stores, vectors
from raypipe.kinds.kind import Around, Kind, Reference
from raypipe.kinds.lucene import ImpactIndex, LuceneIndex
from raypipe.names import Role, of_stage
from raypipe.vocabulary import BM25_B, BM25_K1, DEPTH

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph, System
    from raypipe.engines.lucene.search import Feedback
    from raypipe.stages.ann.recall import Recall
    from raypipe.storage.store import Stored

log = logging.getLogger(__name__)
PROBED_SHARE = 32
"""`probes: auto` reads one of so many lists."""


ANSERINI = "Anserini and Pyserini, for any collection"


TUNED_V1 = "Anserini: tuned for recall@1000 on the dev queries of MS MARCO v1 passages"


_DEPTH = Source("Nogueira et al. 2019: 1,000 candidates")


_BM25_K1 = (Source(ANSERINI, value=BM25_K1), Source(TUNED_V1, value=0.82, default=False))


_BM25_B = (Source(ANSERINI, value=BM25_B), Source(TUNED_V1, value=0.68, default=False))


_RM3 = Source("pyserini's set_rm3")


class Tune(Section):
    """A grid for k1 and b: every pair is run on one query set, and the best by the measure is used.

    That query set must have `report: false`: queries that chose the parameters cannot test them.
    """

    queries: Name
    measure: Measure
    k1: Annotated[tuple[NotNegative, ...], Listed, Field(min_length=1)]
    b: Annotated[tuple[Fraction, ...], Listed, Field(min_length=1)]


class Bm25(Section):
    """BM25's parameters: both values, or a grid to choose them from.

    The default is 0.9 and 0.4 whatever the collection. 0.82 and 0.68 were tuned on the 8.8M
    MS MARCO v1 passages and are set in their recipe, msmarco-passage. The format msmarco-v1 means
    lines of id TAB text, which any collection may use. So a recipe does not show whether its
    collection is the official one, and values tuned elsewhere must not become its default.
    """

    k1: Annotated[NotNegative | None, *_BM25_K1] = None
    """How much further occurrences of a word add. None only where `tune` is given."""
    b: Annotated[Fraction | None, *_BM25_B] = None
    """How much less the words of longer passages add."""
    tune: Tune | None = None


class Rm3(Section):
    """RM3: the query expanded by words of the passages that it finds first.

    k1 and b are tuned without it.
    """

    fb_terms: Annotated[Count, _RM3] = 10
    """Words added to the query."""
    fb_docs: Annotated[int, Field(ge=1, le=50), _RM3] = 10
    """Passages that they are taken from; Anserini's first search finds 50."""
    original_query_weight: Annotated[Fraction, _RM3] = 0.5
    """Weight of the query's own words."""
    filter_terms: Annotated[bool, _RM3] = True
    """Take only words of the letters a to z and digits; false for most other languages."""


class Approximate(Section):
    """How far an index for approximate search is searched, and what it is compared with."""

    refine: Annotated[int, Field(ge=1, le=10_000), Source(OWN)] = 2
    """Passages that the index proposes for each place; all are scored exactly."""
    ef_search: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """For a graph: passages kept while it is walked; auto: as many as are proposed."""
    probes: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """For lists: how many are read; auto: one of 32."""
    recall_queries: Annotated[Count, Source(OWN)] = 100
    """Queries that are also searched exactly, to measure the recall against exact search."""


class Search(Kind):
    """The best passages for each query, as written."""

    labels: ClassVar = {"search": "run"}
    references: ClassVar = (
        Reference(("index",), "index"),
        Reference(("bm25", "tune", "queries"), "query set"),
    )

    do: Literal["search"]
    index: Name
    """An earlier `index`, `encode`, `truncate` or `ann` stage."""
    bm25: Bm25 | None = None
    """For a Lucene index of words only."""
    rm3: Rm3 | None = None
    """For a Lucene index of words only; `rm3: {}` has every default."""
    ann: Approximate | None = None
    """For an `ann` index only."""
    depth: Annotated[Count, _DEPTH] = DEPTH
    """Passages per query."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that BM25's parameters go with a Lucene index and are tuned on unreported
        queries."""
        key = ("stages", name)
        index = around.stages.get(self.index)
        of_impacts = isinstance(index, LuceneIndex) and index.embeddings is not None
        if of_impacts or isinstance(index, Encode | Truncate | Ann):
            held = "impacts" if of_impacts else "embeddings"
            text = f"for a Lucene index of words only, and {self.index} holds {held}; remove it"
            for field in ("bm25", "rm3"):
                if getattr(self, field) is not None:
                    yield Problem((*key, field), text)
        if self.ann is not None:
            yield from _ann_problems((*key, "ann"), self.index, index, self.ann)
        if self.bm25 is not None and self.bm25.tune:
            yield from _tune_problems((*key, "bm25"), self.bm25, self.bm25.tune, around)

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """A search by inner products of embeddings or what is made of them, else by BM25."""
        if isinstance(stages[self.index], Encode | Truncate | ImpactIndex):
            return DenseSearch(do=self.do, index=self.index, depth=self.depth)
        if isinstance(stages[self.index], Ann):
            ann = self.ann or Approximate()
            return AnnSearch(do=self.do, index=self.index, ann=ann, depth=self.depth)
        bm25 = self.bm25 or Bm25()
        parameters: Tuned | Fixed
        if bm25.tune:
            parameters = Tuned(tune=bm25.tune)
        else:
            k1 = BM25_K1 if bm25.k1 is None else bm25.k1
            parameters = Fixed(k1=k1, b=BM25_B if bm25.b is None else bm25.b)
        return Bm25Search(
            do=self.do, index=self.index, bm25=parameters, rm3=self.rm3, depth=self.depth
        )


class Fixed(Section):
    """BM25's parameters, as given."""

    k1: Annotated[NotNegative, *_BM25_K1]
    b: Annotated[Fraction, *_BM25_B]


class Tuned(Section):
    """BM25's parameters, to be tuned."""

    tune: Tune


class _ResolvedSearch(Kind):
    labels: ClassVar = {"search": "run"}
    references: ClassVar = (Reference(("index",), "index"),)

    do: Literal["search"]
    index: Name


class Bm25Search(_ResolvedSearch):
    """A search of a Lucene index by BM25."""

    bm25: Fixed | Tuned
    rm3: Rm3 | None = None
    depth: Annotated[Count, _DEPTH] = DEPTH

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """A search by BM25; tunes its parameters first if the recipe says so."""
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.stages.bm25 import Bm25Stage

        index, sides = inputs[self.index].stored, graph.sides(query_set)
        match self.bm25:
            case Fixed(k1=k1, b=b):
                pass
            case Tuned(tune=tune):
                k1, b = _tuned(graph, name, tune, self.depth, index)
            case _:
                assert_never(self.bm25)
        excluded = graph.excluded(query_set)
        bm25 = Bm25Stage(name, sides, index, k1, b, self.depth, feedback(self.rm3), excluded)
        store = of_stage(name, query_set)
        stored = graph.stores.ensure(store, bm25)
        model = "BM25" if self.rm3 is None else "BM25+RM3"
        return System(name, "run", stored, Chain((store,)), "collection", model)


def feedback(rm3: Rm3 | None) -> Feedback | None:
    """The settings of RM3, as the engine takes them."""
    from raypipe.engines.lucene.search import Feedback

    return None if rm3 is None else Feedback(**rm3.model_dump())


def _tuned(graph: Graph, name: str, tune: Tune, depth: int, index: Stored) -> tuple[float, float]:
    from raypipe.stages.tune import TuneStage, chosen

    store = of_stage(name, role=Role.TUNE)

    def grid() -> TuneStage:
        qrels = graph.recipe.queries[tune.queries].qrels
        assert qrels is not None  # a rule of the recipe
        return TuneStage(
            collection=graph.collection(),
            index=index,
            queries=graph.queries(tune.queries),
            qrels=Path(qrels),
            measure=tune.measure,
            k1=tune.k1,
            b=tune.b,
            depth=depth,
            excluded=graph.excluded(tune.queries),
        )

    k1, b = chosen(graph.store(store, grid))
    log.info("%s: tuned on %s, %s: k1=%s b=%s", name, tune.queries, tune.measure, k1, b)
    return k1, b


class DenseSearch(_ResolvedSearch):
    """A search of embeddings, or of an index of impacts, by inner products."""

    depth: Annotated[Count, _DEPTH] = DEPTH

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """An exact search of embeddings or of impacts: the results of its spans, merged.

        Of an index of impacts it is Lucene's, with the same result.
        """
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.stages.search import PartsStage, merge_stage

        encoded, built = inputs[self.index], graph.recipe.stages[self.index]
        if isinstance(built, ImpactIndex):
            return _impact_search(graph, name, self.depth, query_set, encoded, built.embeddings)
        model = graph.model(encoded.model)
        of_queries = vectors(graph, self.index, encoded.model, query_set)
        parts, store = of_stage(name, query_set, Role.PARTS), of_stage(name, query_set)
        of = (name, encoded.stored, of_queries, self.depth)
        search = PartsStage(*of, excluded=graph.excluded(query_set))
        if model.encoder.is_sparse:
            from raypipe.stages.sparse import SparsePartsStage

            search = SparsePartsStage(*of, model.dim, excluded=graph.excluded(query_set))
        found = graph.stores.ensure(parts, search)
        merge = merge_stage(name, found, graph.sides(query_set), self.depth)
        merged = graph.stores.ensure(store, merge)
        chain = Chain((*query_stores(graph, self.index, query_set), parts, store))
        saw = encoded.start_weights
        return System(name, "run", merged, chain, "collection", encoded.model, saw)


def _impact_search(
    graph: Graph, name: str, depth: int, query_set: str, index: System, embeddings: str
) -> System:
    from raypipe.driver.recipe.graph import Chain, System
    from raypipe.stages.impacts import ImpactSearchStage

    of_queries, sides = vectors(graph, embeddings, index.model, query_set), graph.sides(query_set)
    store = of_stage(name, query_set)
    excluded = graph.excluded(query_set)
    search = ImpactSearchStage(name, sides, index.stored, of_queries, depth, excluded)
    stored = graph.stores.ensure(store, search)
    chain = Chain((of_stage(embeddings, query_set), store))
    return System(name, "run", stored, chain, "collection", index.model, index.start_weights)


class AnnSearch(_ResolvedSearch):
    """An approximate search of embeddings by inner products."""

    ann: Approximate
    depth: Annotated[Count, _DEPTH] = DEPTH

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """An approximate search, and its recall against exact search."""
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.stages.ann.recall import measured, recall_stage
        from raypipe.stages.ann.search import AnnSearchStage

        index = inputs[self.index]
        built = graph.recipe.stages[self.index]
        assert isinstance(built, Ann)
        embeddings = vectors(graph, built.embeddings, index.model, None)
        of_queries = vectors(graph, built.embeddings, index.model, query_set)
        ef_search = probes = centres = None
        if built.ivf_pq is None:
            kept = self.ann.ef_search
            ef_search = self.depth * self.ann.refine if kept == "auto" else kept
        else:
            centres = centres_of(graph, self.index, built.ivf_pq, embeddings, index.model)
            lists = lists_of(built.ivf_pq, embeddings.num_rows)
            read = max(1, lists // PROBED_SHARE) if self.ann.probes == "auto" else self.ann.probes
            probes = min(read, lists)
        excluded = graph.excluded(query_set)
        search = AnnSearchStage(
            name,
            index.stored,
            centres,
            embeddings,
            of_queries,
            graph.sides(query_set),
            self.depth,
            self.ann.refine,
            ef_search,
            probes,
            excluded,
        )
        store, recall_store = of_stage(name, query_set), of_stage(name, query_set, Role.RECALL)
        stored = graph.stores.ensure(store, search)
        measured_on = (self.depth, self.ann.recall_queries, excluded)
        recall = recall_stage(stored, embeddings, of_queries, *measured_on)
        found = measured(graph.stores.ensure(recall_store, recall))
        chain = Chain((*query_stores(graph, built.embeddings, query_set), store))
        return System(
            name,
            "run",
            stored,
            chain,
            "collection",
            index.model,
            index.start_weights,
            recall=found,
            approximate=(_told(name, found, of_queries.num_rows),),
        )


def _told(name: str, recall: Recall, num_queries: int) -> str:
    if not recall.by_cutoff:
        return f"{name}: approximate search; no query to measure its recall on"
    values = ", ".join(f"{value:.4f} at {k}" for k, value in recall.by_cutoff.items())
    return (
        f"{name}: approximate search; recall against exact search {values} "
        f"({recall.queries:,} of {num_queries:,} queries)"
    )


def _ann_problems(key: Key, name: str, index: Kind | None, ann: Approximate) -> Iterator[Problem]:
    if index is not None and not isinstance(index, Ann):
        yield Problem(key, f"for an ann index only, and {name} is of kind {index.do}; remove it")
    if isinstance(index, Ann):
        field, made = ("ef_search", "lists") if index.ivf_pq is not None else ("probes", "a graph")
        if getattr(ann, field) != "auto":
            yield Problem((*key, field), f"{name} is {made}, which has none; remove it")


def _tune_problems(key: Key, bm25: Bm25, tune: Tune, around: Around) -> Iterator[Problem]:
    for field, value in (("k1", bm25.k1), ("b", bm25.b)):
        if value is not None:
            text = f"found {value} and a grid to tune it on; remove one of them"
            yield Problem((*key, field), text)
    inner = (*key, "tune", "queries")
    queries = around.queries.get(tune.queries)
    if queries and queries.qrels is None and queries.builtin is None:
        yield Problem(inner, f"tuning needs judgements; give qrels to the query set {tune.queries}")
    if queries and queries.report:
        text = f"{tune.queries} is reported, but tuning queries cannot test what they tuned;"
        yield Problem(inner, f"{text} set queries.{tune.queries}.report: false, or tune on others")
