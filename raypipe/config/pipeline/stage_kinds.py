"""The kinds of stages a recipe can have; the key `do` picks one.

A stage's name is the name of its system, its store, its run file and its TREC tag.
"""

from typing import Annotated, Literal

from pydantic import Field

from raypipe.config.fields import (
    OWN,
    Count,
    Listed,
    Location,
    Measure,
    Name,
    NotNegative,
    Real,
    Section,
    Seed,
    Source,
    Unit,
)

K0 = "Nogueira et al. 2019: 1,000 candidates"
K1 = "Nogueira et al. 2019: 50 candidates"
ANSERINI = "Anserini and Pyserini, for any collection"
TUNED_V1 = "Anserini: tuned for recall@1000 on the dev queries of MS MARCO v1 passages"


class Index(Section):
    """A Lucene index of the collection."""

    do: Literal["index"]


class Encode(Section):
    """Embeddings of the collection, one a passage."""

    do: Literal["encode"]
    model: Name


class Tune(Section):
    """A grid for k1 and b: every pair is run on one query set, the best by the measure is used.

    That query set must have `report: false`: what chose the parameters is no test of them.
    """

    queries: Name
    measure: Measure
    k1: Annotated[tuple[NotNegative, ...], Listed, Field(min_length=1)]
    b: Annotated[tuple[Unit, ...], Listed, Field(min_length=1)]


class Bm25(Section):
    """BM25's parameters: both, or a grid to tune them on.

    The default is 0.9 and 0.4 whatever the collection. 0.82 and 0.68 were tuned on the 8.8M
    MS MARCO v1 passages and stand in the recipe of those, msmarco-passage: the format
    msmarco-v1 means lines of id TAB text, which any collection may use, so nothing known when
    a recipe is loaded tells the official one, and a value tuned elsewhere must not slip in.
    """

    k1: Annotated[
        NotNegative | None, Source(ANSERINI, value=0.9), Source(TUNED_V1, value=0.82, default=False)
    ] = None
    """None only where `tune` is given."""
    b: Annotated[
        Unit | None, Source(ANSERINI, value=0.4), Source(TUNED_V1, value=0.68, default=False)
    ] = None
    tune: Tune | None = None


class Search(Section):
    """The best passages for each query: BM25 over an index, inner products over embeddings."""

    do: Literal["search"]
    index: Name
    """An earlier `index` or `encode` stage."""
    bm25: Bm25 | None = None
    """Given for a Lucene index, None for embeddings."""
    depth: Annotated[Count, Source(K0)] = 1000
    """Passages a query."""


class Fuse(Section):
    """Several runs made into one; `raypipe.ranking.rules` has each method's equation."""

    do: Literal["fuse"]
    runs: Annotated[tuple[Name, ...], Listed, Field(min_length=2)]
    """Earlier run stages; `alternate` takes the first one's best passage first."""
    method: Literal["alternate", "rrf", "weighted", "average"]
    weights: Annotated[
        tuple[Real, ...] | None,
        Listed,
        Source(f"equal weights, {OWN}", value=lambda fuse: equal_weights(len(fuse.runs))),
    ] = None
    """One a run, for `weighted` only."""
    k: Annotated[NotNegative | None, Source("Cormack et al. 2009, section 2", value=60.0)] = None
    """The constant of `rrf`, for it only."""
    depth: Annotated[Count, Source(K0)] = 1000


class Read(Section):
    """An existing ranking, one file a query set."""

    do: Literal["read"]
    runs: Annotated[dict[Name, Location], Field(min_length=1)]


class Score(Section):
    """A run's first candidates scored by a reranker: a run of a mono model, pairs of a duo."""

    do: Literal["score"]
    run: Name
    """An earlier run stage."""
    model: Name
    k0: Annotated[Count | None, Source(K0, value=1000)] = None
    """Candidates a query, for a mono model; its output is a run."""
    k1: Annotated[Count | None, Source(K1, value=50, default=False)] = None
    """Candidates a query whose ordered pairs a duo model scores; its output is pairs."""
    sample: Count | None = None
    """Of a duo's pairs, so many drawn for each candidate, without replacement."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """Of the draw."""
    score: Literal["log-probability", "probability", "raw"] | None = None
    """A mono's; None: as the model's conventions say."""
    tail: Annotated[Literal["keep", "drop"], Source(OWN)] = "keep"
    """Whether candidates below k0 stay below, in their order."""


class Aggregate(Section):
    """A duo's pairs made into a run; `raypipe.ranking.aggregate` has each method's equation."""

    do: Literal["aggregate"]
    pairs: Name
    """An earlier `score` stage with k1."""
    method: Literal["sum", "binary", "min", "max", "sample", "symmetric-sum", "symmetric-log-sum"]
    k1: Count | None = None
    """At most the pairs' own, which None means."""
    m: Count | None = None
    """Pairs drawn for each candidate, for `sample` only."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """Of the draw."""
    tail: Annotated[Literal["keep", "drop"], Source(OWN)] = "keep"


Stage = Annotated[
    Index | Encode | Search | Fuse | Read | Score | Aggregate, Field(discriminator="do")
]

STAGE_KINDS: dict[str, type[Section]] = {
    "aggregate": Aggregate,
    "encode": Encode,
    "fuse": Fuse,
    "index": Index,
    "read": Read,
    "score": Score,
    "search": Search,
}
RUN_KINDS = ("search", "fuse", "read", "score", "aggregate")
"""Their output is a run, of a score with k1 pairs; the others' is an index."""
PAIRS_KIND = "score with k1"
"""What a score stage is called whose output is pairs."""


def input_names(stage: Stage) -> tuple[str, ...]:
    """The stages whose output this one reads, in the order it reads them."""
    match stage:
        case Search(index=index):
            return (index,)
        case Fuse(runs=runs):
            return runs
        case Score(run=run):
            return (run,)
        case Aggregate(pairs=pairs):
            return (pairs,)
        case _:
            return ()


def equal_weights(num_runs: int) -> tuple[float, ...]:
    """What `weighted` uses where no weights are given; they sum to 1."""
    return (1 / num_runs,) * num_runs
