"""The stage that finds the best passages for each query, by BM25 or by inner products.

Inner products are those of all passages, or of those that an index for approximate search proposes.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from raypipe.config.fields import (
    OWN,
    AutoOrCount,
    Count,
    Listed,
    Measure,
    Name,
    NotNegative,
    Section,
    Source,
    Unit,
)
from raypipe.config.pipeline.kinds.ann import Ann
from raypipe.config.pipeline.kinds.encode import Encode
from raypipe.config.pipeline.kinds.kind import Around, Kind, Reference
from raypipe.config.yaml.document import Key, Problem
from raypipe.vocabulary import BM25_B, BM25_K1, DEPTH

ANSERINI = "Anserini and Pyserini, for any collection"
TUNED_V1 = "Anserini: tuned for recall@1000 on the dev queries of MS MARCO v1 passages"
_DEPTH = Source("Nogueira et al. 2019: 1,000 candidates")
_K1 = (Source(ANSERINI, value=BM25_K1), Source(TUNED_V1, value=0.82, default=False))
_B = (Source(ANSERINI, value=BM25_B), Source(TUNED_V1, value=0.68, default=False))


_RM3 = Source("pyserini's set_rm3")


class Tune(Section):
    """A grid for k1 and b: every pair is run on one query set, and the best by the measure is used.

    That query set must have `report: false`: queries that chose the parameters cannot test them.
    """

    queries: Name
    measure: Measure
    k1: Annotated[tuple[NotNegative, ...], Listed, Field(min_length=1)]
    b: Annotated[tuple[Unit, ...], Listed, Field(min_length=1)]


class Bm25(Section):
    """BM25's parameters: both values, or a grid to choose them from.

    The default is 0.9 and 0.4 whatever the collection. 0.82 and 0.68 were tuned on the 8.8M
    MS MARCO v1 passages and are set in their recipe, msmarco-passage. The format msmarco-v1 means
    lines of id TAB text, which any collection may use. So a recipe does not show whether its
    collection is the official one, and values tuned elsewhere must not become its default.
    """

    k1: Annotated[NotNegative | None, *_K1] = None
    """None only where `tune` is given."""
    b: Annotated[Unit | None, *_B] = None
    tune: Tune | None = None


class Rm3(Section):
    """RM3: the query expanded by words of the passages that it finds first.

    k1 and b are tuned without it.
    """

    fb_terms: Annotated[Count, _RM3] = 10
    """Words added to the query."""
    fb_docs: Annotated[int, Field(ge=1, le=50), _RM3] = 10
    """Passages that they are taken from; Anserini's first search finds 50."""
    original_query_weight: Annotated[Unit, _RM3] = 0.5
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
    """An earlier `index`, `encode` or `ann` stage."""
    bm25: Bm25 | None = None
    """For a Lucene index only."""
    rm3: Rm3 | None = None
    """For a Lucene index only; `rm3: {}` has every default."""
    ann: Approximate | None = None
    """For an `ann` index only."""
    depth: Annotated[Count, _DEPTH] = DEPTH
    """Passages per query."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that BM25's parameters go with a Lucene index and are tuned on unreported
        queries."""
        key = ("stages", name)
        index = around.stages.get(self.index)
        if isinstance(index, Encode | Ann):
            text = f"for a Lucene index only, and {self.index} holds embeddings; remove it"
            for field in ("bm25", "rm3"):
                if getattr(self, field) is not None:
                    yield Problem((*key, field), text)
        if self.ann is not None:
            yield from _ann_problems((*key, "ann"), self.index, index, self.ann)
        if self.bm25 is not None and self.bm25.tune:
            yield from _tune_problems((*key, "bm25"), self.bm25, self.bm25.tune, around)

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """By inner products if the index holds embeddings or is made of them, else by BM25."""
        if isinstance(stages[self.index], Encode):
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

    @property
    def inputs(self) -> tuple[str, ...]:
        """The index."""
        return (self.index,)


class Fixed(Section):
    """BM25's parameters, as given."""

    k1: Annotated[NotNegative, *_K1]
    b: Annotated[Unit, *_B]


class Tuned(Section):
    """BM25's parameters, to be tuned."""

    tune: Tune


class _Resolved(Kind):
    labels: ClassVar = {"search": "run"}

    do: Literal["search"]
    index: Name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The index."""
        return (self.index,)


class Bm25Search(_Resolved):
    """A search of a Lucene index by BM25."""

    bm25: Fixed | Tuned
    rm3: Rm3 | None = None
    depth: Annotated[Count, _DEPTH] = DEPTH


class DenseSearch(_Resolved):
    """A search of embeddings by inner products."""

    depth: Annotated[Count, _DEPTH] = DEPTH


class AnnSearch(_Resolved):
    """An approximate search of embeddings by inner products."""

    ann: Approximate
    depth: Annotated[Count, _DEPTH] = DEPTH


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
