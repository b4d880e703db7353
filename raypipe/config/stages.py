"""The kinds of stages a recipe can have; the key `do` picks one.

A stage's name is the name of its system, its store, its run file and its TREC tag. Add a kind that
needs no resolving to `Plain`. Add one that does to `Written`, and the type that it resolves to to
`Stage`.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from raypipe.config.fields import (
    OWN,
    AutoOrCount,
    Count,
    Fraction,
    Listed,
    Location,
    Measure,
    Name,
    NotNegative,
    Section,
    Seed,
    Source,
)
from raypipe.config.kind import Around, Kind, Produces, Reference, absent
from raypipe.config.parts import CIP
from raypipe.config.yaml import Key, Problem
from raypipe.vocabulary import (
    BM25_B,
    BM25_K1,
    DEPTH,
    K0,
    K1,
    K_MAX,
    RRF_K,
    Aggregation,
    BreakTies,
    DocumentMethod,
    FusionMethod,
    Language,
    ScoreScale,
    Tail,
    Unit,
)


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
        yield from _encoded_problems(name, self.embeddings, around)
        if self.embeddings is not None and "language" in self.model_fields_set:
            yield Problem(("stages", name, "language"), "for an index of words only; remove it")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """Of impacts if it is over embeddings."""
        over = self.embeddings
        return self if over is None else ImpactIndex(do=self.do, embeddings=over)


class ImpactIndex(Kind):
    """A Lucene index of impacts."""

    labels: ClassVar = {"index": "index"}
    references: ClassVar = (Reference(("embeddings",), "index"),)

    do: Literal["index"]
    embeddings: Name


class Encode(Kind):
    """Embeddings of the collection, one per passage."""

    labels: ClassVar = {"encode": "index"}
    references: ClassVar = (Reference(("model",), "model"),)

    do: Literal["encode"]
    model: Name


_GUIDELINES = "faiss's Guidelines to choose an index"


class Hnsw(Section):
    """A graph of the passages: fast, as large as the embeddings, built by one thread."""

    links: Annotated[int, Field(ge=2, le=512), Source(OWN)] = 32
    """Links of a passage to others; twice as many on the lowest level."""
    ef_construction: Annotated[int, Field(ge=1, le=10_000), Source(OWN)] = 200
    """Passages looked at for the links of each."""


class IvfPq(Section):
    """Lists of compressed passages: small, trained once, added a shard at a time."""

    lists: Annotated[AutoOrCount, Source(f"{_GUIDELINES}: 4 sqrt(passages)")] = "auto"
    """Number of lists."""
    code_bytes: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Bytes of a passage's code, a divisor of the dimensions; auto: one for 8 dimensions."""
    train_rows: Annotated[AutoOrCount, Source(f"{_GUIDELINES}: 30 to 256 a list; here 64")] = "auto"
    """Passages that the lists and codes are trained on."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """Draws these passages and the first centres."""


class Ann(Kind):
    """An index for approximate search of embeddings: a graph, or lists of compressed passages."""

    labels: ClassVar = {"ann": "index"}
    references: ClassVar = (Reference(("embeddings",), "index"),)

    do: Literal["ann"]
    embeddings: Name
    """An earlier `encode` stage."""
    hnsw: Hnsw | None = None
    """`hnsw: {}` has every default; an index without `ivf_pq` is this one."""
    ivf_pq: IvfPq | None = None
    """`ivf_pq: {}` has every default."""

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that it is over embeddings, and is one index."""
        key = ("stages", name)
        yield from _encoded_problems(name, self.embeddings, around)
        if self.hnsw is not None and self.ivf_pq is not None:
            yield Problem((*key, "ivf_pq"), "found hnsw too; an index is one of them, remove one")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """With a graph if nothing is chosen."""
        if self.hnsw is None and self.ivf_pq is None:
            return self.model_copy(update={"hnsw": Hnsw()})
        return self


class GivenRun(Kind):
    """An existing ranking, one run file per query set."""

    labels: ClassVar = {"read": "run"}
    references: ClassVar = (Reference(("runs",), "query set", "keys"),)

    do: Literal["read"]
    runs: Annotated[dict[Name, Location], Field(min_length=1)]
    of: Annotated[Unit, Source(OWN)] = "passages"
    """What the files rank: the collection's passages, or its documents."""
    break_ties: Annotated[BreakTies, Source(OWN)] = "id"
    """How equal scores of a file without ranks, or of a TREC file, are ordered: by passage id
    descending, as in trec_eval, or as in the file."""
    larger_collection: Annotated[str, Field(min_length=1), Source(OWN)] | None = None
    """The name of a larger collection that the files rank, of which this one is a part: lines of
    passages that are not here are left out and counted, and tables mark the run."""

    @property
    def ranks(self) -> Unit:
        """What the files rank."""
        return self.of


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
    """None only where `tune` is given."""
    b: Annotated[Fraction | None, *_BM25_B] = None
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
    """An earlier `index`, `encode` or `ann` stage."""
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
        if of_impacts or isinstance(index, Encode | Ann):
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
        """By inner products if the index holds embeddings or is made of them, else by BM25."""
        if isinstance(stages[self.index], Encode | ImpactIndex):
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


class DenseSearch(_ResolvedSearch):
    """A search of embeddings, or of an index of impacts, by inner products."""

    depth: Annotated[Count, _DEPTH] = DEPTH


class AnnSearch(_ResolvedSearch):
    """An approximate search of embeddings by inner products."""

    ann: Approximate
    depth: Annotated[Count, _DEPTH] = DEPTH


def _encoded_problems(name: str, wanted: str | None, around: Around) -> Iterator[Problem]:
    over = around.stages.get(wanted or "")
    if over is not None and not isinstance(over, Encode):
        text = f"expected an encode stage; {wanted} is of kind {over.do}"
        yield Problem(("stages", name, "embeddings"), text)


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


_K0 = Source("Nogueira et al. 2019: 1,000 candidates", value=K0)
_K1 = Source("Nogueira et al. 2019: 50 candidates", value=K1, default=False)
PAIRS = "score with k1"
"""The name, in messages, of a score stage whose output is pairs."""


class Score(Kind):
    """Scores the first candidates of a run: a monoBERT model makes a run, a duoBERT model pairs."""

    labels: ClassVar = {"score": "run", PAIRS: "pairs"}
    references: ClassVar = (Reference(("model",), "model"), Reference(("run",), "run"))

    do: Literal["score"]
    run: Name
    """An earlier run stage."""
    model: Name
    k0: Annotated[Count | None, _K0] = None
    """Candidates per query for a monoBERT model; the output is a run."""
    k1: Annotated[Count | None, _K1] = None
    """Candidates per query whose ordered pairs a duoBERT model scores; the output is pairs."""
    sample: Count | None = None
    """Number of a duoBERT model's pairs to draw for each candidate, without replacement."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """The seed of the draw."""
    score: ScoreScale | None = None
    """The scale of a monoBERT model's scores; None means that of the model's settings."""
    blend: NotNegative | None = None
    """The weight a of the run's own order in a monoBERT model's ranking: it is by a z + f, where z
    is the run's score, min-max over a query's first k0, and f the model's log odds. None means that
    of the model's settings, 0 none."""
    tail: Annotated[Tail, Source(OWN)] = "keep"
    """Whether candidates below k0 are kept below the others, in their order."""

    @classmethod
    def label(cls, written: Mapping[str, Any]) -> str:
        """The label of this stage: scores of pairs have a label of their own."""
        return "score" if written.get("k1") is None else PAIRS

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that k0, k1 and each option are given for the right kind of model."""
        key = ("stages", name)
        if self.k0 is not None and self.k1 is not None:
            yield Problem((*key, "k1"), "found k0 (of monoBERT) and k1 (of duoBERT); remove one")
        if self.k1 is None and self.sample is not None:
            yield Problem((*key, "sample"), "for a duoBERT model only; give k1, or remove it")
        if self.k1 is not None and self.score is not None:
            yield Problem((*key, "score"), "a duoBERT model's is always the probability; remove it")
        if self.k1 is not None and self.blend is not None:
            yield Problem((*key, "blend"), "for a monoBERT model only; remove it")
        if self.k1 == 1:
            yield Problem((*key, "k1"), "one candidate makes no pair; expected 2 or more")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """The stage of a monoBERT or of a duoBERT model."""
        given = vars(self)
        if self.k1 is None:
            mono = {name: given[name] for name in MonoScore.model_fields}
            return MonoScore.model_validate(mono | {"k0": K0 if self.k0 is None else self.k0})
        return DuoScore.model_validate({name: given[name] for name in DuoScore.model_fields})


class _ResolvedScore(Kind):
    references: ClassVar = (Reference(("run",), "run"),)

    do: Literal["score"]
    run: Name
    model: Name

    @property
    def scores_with(self) -> str | None:
        """The model."""
        return self.model


class MonoScore(_ResolvedScore):
    """Reorders a run's first k0 candidates by a monoBERT model's scores."""

    labels: ClassVar[Mapping[str, Produces]] = {"score": "run"}

    k0: Annotated[Count, _K0]
    seed: Annotated[Seed, Source(OWN)] = 0
    """No effect on the scores; kept as written."""
    score: ScoreScale | None = None
    blend: NotNegative | None = None
    tail: Annotated[Tail, Source(OWN)] = "keep"


class DuoScore(_ResolvedScore):
    """Scores every ordered pair of a run's first k1 candidates, or a draw of the pairs."""

    labels: ClassVar[Mapping[str, Produces]] = {PAIRS: "pairs"}

    k1: Annotated[Count, _K1]
    sample: Count | None = None
    seed: Annotated[Seed, Source(OWN)] = 0
    tail: Annotated[Tail, Source(OWN)] = "keep"
    """No effect on the pairs; kept as written."""


class Fuse(Kind):
    """Fuses several runs into one; `raypipe.ranking.fuse` has each method's equation. A single run
    is cut at `depth`, in its own order and with its own scores."""

    labels: ClassVar = {"fuse": "run"}
    references: ClassVar = (Reference(("runs",), "run", "list"),)

    do: Literal["fuse"]
    runs: Annotated[tuple[Name, ...], Listed, Field(min_length=1)]
    """Earlier run stages; `alternate` takes the first one's best passage first."""
    method: FusionMethod | None = None
    """Needed for two runs or more; a single run has none."""
    weights: Annotated[
        tuple[NotNegative, ...] | None,
        Listed,
        Source(f"equal weights, {OWN}", value=lambda fuse: equal_weights(len(fuse.runs))),
    ] = None
    """One weight per run, not all 0; for `weighted` only."""
    k: Annotated[NotNegative | None, Source("Cormack et al. 2009, section 2", value=RRF_K)] = None
    """The constant of `rrf`; for that method only."""
    depth: Annotated[Count, Source("Nogueira et al. 2019: 1,000 candidates")] = DEPTH

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that no run is given twice, and weights and k only with their methods."""
        key, how, weights = ("stages", name), self.method or "one run", self.weights
        for i, run in enumerate(self.runs):
            if run in self.runs[:i]:
                yield Problem((*key, "runs", i), f"{run} given twice; keep one of them")
        if (self.method is None) != (len(self.runs) == 1):
            yield Problem((*key, "method"), "expected one for two runs or more, none to cut one")
        if weights is not None and self.method != "weighted":
            yield Problem((*key, "weights"), f"for method weighted only, not {how}; remove them")
        elif weights is not None and len(weights) != len(self.runs):
            text = f"expected {len(self.runs)}, one for each of the runs; found {len(weights)}"
            yield Problem((*key, "weights"), text)
        elif weights is not None and not any(weights):
            yield Problem((*key, "weights"), "expected one above 0, for something to rank by")
        if self.k is not None and self.method != "rrf":
            yield Problem((*key, "k"), f"for method rrf only, not {how}; remove it")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """The stage with the method's own constants filled in."""
        if self.method == "rrf":
            return self.model_copy(update=absent(self.k, k=RRF_K))
        if self.method == "weighted":
            weights = equal_weights(len(self.runs))
            return self.model_copy(update=absent(self.weights, weights=weights))
        return self

    @property
    def ranks(self) -> Literal["as its runs"]:
        """Passages or documents, as the runs do."""
        return "as its runs"

    @property
    def reads(self) -> Literal["as the first"]:
        """One of both, in all runs."""
        return "as the first"


def equal_weights(num_runs: int) -> tuple[float, ...]:
    """The weights of `weighted` if none are given; they sum to 1."""
    return (1 / num_runs,) * num_runs


class Aggregate(Kind):
    """Turns a duoBERT model's pairs into a run; `raypipe.ranking.aggregate` has the equations."""

    labels: ClassVar = {"aggregate": "run"}
    references: ClassVar = (Reference(("pairs",), "pairs"),)

    do: Literal["aggregate"]
    pairs: Name
    """An earlier `score` stage with k1."""
    method: Aggregation
    k1: Count | None = None
    """At most the k1 of the pairs; None means the same k1."""
    m: Count | None = None
    """Number of pairs drawn for each candidate; for `sample` only."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """The seed of the draw."""
    tail: Annotated[Tail, Source(OWN)] = "keep"

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that the pairs hold what k1 and the draw ask for."""
        key = ("stages", name)
        pairs = around.stages.get(self.pairs)
        if self.method == "sample" and self.m is None:
            yield Problem((*key, "m"), "missing; expected the number drawn for each candidate")
        if self.method != "sample" and self.m is not None:
            yield Problem((*key, "m"), f"for method sample only, not {self.method}; remove it")
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


NUM_DOCUMENTS = 100


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


Plain = LuceneIndex | Encode | Ann | GivenRun | Fuse | Aggregate | DocumentRun | PassageRun
Written = Annotated[Search | Score | Plain, Field(discriminator="do")]
"""A stage as written in a recipe."""
Stage = ImpactIndex | Bm25Search | DenseSearch | AnnSearch | MonoScore | DuoScore | Plain
"""A stage of a recipe that was loaded."""

_KINDS: tuple[type[Kind], ...] = get_args(get_args(Written)[0])
KINDS: dict[str, type[Kind]] = {
    do: kind for kind in _KINDS for do in get_args(kind.model_fields["do"].annotation)
}
"""The kinds by their word for `do`."""


def labels_of(produces: Produces) -> tuple[str, ...]:
    """The names, in messages, of the kinds whose stages make this; sorted."""
    found = [
        label for kind in KINDS.values() for label, made in kind.labels.items() if made == produces
    ]
    return tuple(sorted(found))
