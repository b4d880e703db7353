"""What a training recipe says of queries: sets to train and measure on, and what is kept out."""

from typing import Annotated

from pydantic import Field

from raypipe.config.fields import OWN, Count, Location, Name, OneOrMore, Real, Section, Source
from raypipe.config.training.documents import DevDocuments, TrainDocuments
from raypipe.vocabulary import K0


class Negatives(Section):
    """Passages used as irrelevant ones, drawn from runs over the training queries."""

    runs: Annotated[tuple[Location, ...], OneOrMore, Field(min_length=1)]
    """Run files; a passage's run and rank are kept with it."""
    first: Annotated[Count, Source(OWN)] = 1
    """First of the ranks that they are drawn from."""
    last: Annotated[Count, Source("Nogueira & Cho 2019: the first 1,000 of BM25")] = K0
    """Last of the ranks that they are drawn from."""
    relevant_last: Count | None = None
    """Treat a judged passage as relevant only if one of the runs has it up to this rank, since a
    reranker sees no others. None means all judged ones. Where runs miss most of them, a model that
    learns from all learns that whatever the runs find is irrelevant."""
    per_example: Annotated[Count, Source("one relevant, one not (Nogueira & Cho 2019)")] = 1
    """Number of irrelevant passages in an example."""
    examples: Annotated[Count, Source(OWN)] = 1
    """Number of examples for each relevant passage, each with other negatives."""
    above_teacher: Real | None = None
    """Leave out negatives that the teacher scores higher than the relevant passage's score plus
    this."""


class Pairs(Section):
    """The first candidates of each query, each an example of its own with its label: a batch has as
    few relevant passages as the runs have."""

    runs: Annotated[tuple[Location, ...], OneOrMore, Field(min_length=1)]
    """Run files over the training queries."""
    last: Annotated[Count, Source("Nogueira & Cho 2019: the first ten of BM25, for TREC CAR")] = 10
    """Last of the ranks that are used."""


class FirstStages(Section):
    """The first stages of which a blend learns: each example has z from one of them, drawn."""

    runs: Annotated[tuple[Location, ...], OneOrMore, Field(min_length=1)]
    """Run files over the training queries. z is a passage's score there, min-max over the query's
    list, and 0 if the run lacks the passage."""
    last: Annotated[Count, Source("Nogueira & Cho 2019: the first 1,000 of BM25")] = K0
    """Last rank of such a list: k0 of the pipelines that the model is for."""
    none: Annotated[bool, Source(OWN)] = True
    """Whether z = 0 for all of an example's passages is one of the choices."""


class TrainingSet(Section):
    """Queries with their examples over one collection."""

    collection: Name | None = None
    queries: Location | None = None
    qrels: Location | None = None
    """Without qrels, a set of negatives with a teacher is unlabelled: its lists, drawn from the
    runs, learn by a kl to the teacher alone."""
    min_grade: Annotated[Count, Source(OWN)] = 1
    """The lowest relevant grade. Passages with a lower grade above 0 are neither learnt as relevant
    nor drawn as negatives."""
    negatives: Negatives | None = None
    """With qrels, or with a teacher."""
    blend: FirstStages | None = None
    """With negatives, for loss.blend: where the first stage's scores come from."""
    pairs: Pairs | None = None
    """Instead of negatives, with qrels: for the cross-entropy of a monoBERT model."""
    documents: TrainDocuments | None = None
    """Qrels and runs name documents, and examples are of their passages."""
    triples: Location | None = None
    """Instead of negatives: lines of a query id, a relevant and an irrelevant passage id."""
    texts: Location | None = None
    """Instead of all of these: lines of a query, a relevant and an irrelevant passage, as texts."""
    teacher: Location | None = None
    """Source of the teacher's scores: a workspace of `raypipe score`, whose scored candidates are
    used, or a run file with a teacher's score in every line (`score --tail drop`). Relevant
    passages and negatives without a score are left out and counted."""
    examples_at_most: Count | None = None
    """Keep the first examples in a seeded order, at most this number, for curves over training
    sizes: smaller sets are subsets of larger ones. Each size is a separate training with its whole
    schedule."""


class DevSet(Section):
    """Queries on which a checkpoint is measured."""

    collection: Name
    queries: Location
    qrels: Location
    run: Location
    """A run whose first candidates are scored and reordered; the others are kept below them."""
    k: Annotated[Count, Source("Nogueira et al. 2019: 1,000 candidates, 50 for duoBERT")] = K0
    """Number of candidates per query: k0 for a monoBERT model or an encoder, k1 for a duoBERT model
    (by SUM)."""
    documents: DevDocuments | None = None
    """Qrels and run name documents; k then counts documents."""
    queries_at_most: Count | None = None
    """Measure on at most this number of queries, the first ones."""


class Guarded(Section):
    """Evaluation queries, which must stay out of the training; dev sets are always guarded."""

    queries: Location
    qrels: Location | None = None
    collection: Name | None = None
    """The collection that holds the qrels' passages."""
    leave_out_passages: Annotated[bool, Source(OWN)] = False
    """Also leave every judged passage out of the negatives. Otherwise, where the training set does
    not use them as relevant, they could only be taught as irrelevant."""
