"""A global batch: examples of several sources with their texts, cut to the model's limits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.models.folder.settings import Conventions, PairConventions
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.text.inputs import Layout, TextSlice, cut_to, taken
from raypipe.training.examples import Examples

Int64 = NDArray[np.int64]


ReadRows = Callable[[Int64], TextSlice]
"""Word pieces of rows, in their order."""


def gathered(sources: Sequence[ReadRows], of_source: Int64, rows: Int64) -> TextSlice:
    """The pieces of rows [B], each from its own source, int64 [B], in their order."""
    starts, counts = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    flats = []
    before = 0
    for number in np.unique(of_source):
        own = np.flatnonzero(of_source == number)
        part = sources[number](rows[own])
        starts[own], counts[own] = part.starts + before, part.counts
        flats.append(part.flat)
        before += len(part.flat)
    flat = np.concatenate(flats) if flats else np.empty(0, np.uint16)
    return TextSlice(flat, starts, counts)


Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ExampleSource:
    """Examples over one collection and one query set."""

    examples: Examples
    queries: TokenRows
    passages: TokenRows


@dataclass(frozen=True, slots=True)
class Batch:
    """E examples of L passages; passage l of example e is text number e * L + l."""

    query: TextSlice
    """[E]"""
    passage: TextSlice
    """[E * L]"""
    num_passages: int
    positive: NDArray[np.bool_]
    """[E, E * L]: which passages are known as relevant for each query."""
    teacher: Float32 | None
    """[E, L]; NaN in examples of a source without a teacher."""
    labels: Float32 | None = None
    """[E, L] where the passages bring labels; otherwise an example's first one is relevant."""
    judged: NDArray[np.bool_] | None = None
    """[E]: whether an example is no unlabelled list; None if none is."""
    first_stage: Float32 | None = None
    """[E, L]: z of a blend, s = a z + f; 0 in examples of a source without first stages."""

    @property
    def num_examples(self) -> int:
        """E."""
        return len(self.query.counts)


def read_batch(sources: Sequence[ExampleSource], numbers: Int64) -> Batch:
    """The examples with these numbers, counted over all sources in order."""
    edges = np.cumsum([source.examples.num_examples for source in sources])
    of_source = np.searchsorted(edges, numbers, side="right")
    within = numbers - np.concatenate([[0], edges])[of_source]
    width = sources[0].examples.num_passages
    query_rows = np.empty(len(numbers), np.int64)
    passage_rows = np.empty((len(numbers), width), np.int64)
    has_teacher = any(source.examples.teacher is not None for source in sources)
    teacher = np.full((len(numbers), width), np.nan, np.float32) if has_teacher else None
    judged = np.array([source.examples.is_judged for source in sources], bool)[of_source]
    has_first_stage = any(source.examples.first_stage is not None for source in sources)
    first_stage = np.zeros((len(numbers), width), np.float32) if has_first_stage else None
    has_labels = any(source.examples.labels is not None for source in sources)
    labels = np.empty((len(numbers), width), np.float32) if has_labels else None
    for number in np.unique(of_source):
        own = of_source == number
        examples = sources[number].examples
        if labels is not None and examples.labels is not None:  # all sources have them, or none
            labels[own] = examples.labels[within[own]]
        if first_stage is not None and examples.first_stage is not None:
            first_stage[own] = examples.first_stage[within[own]]
        query_rows[own] = examples.query_rows[within[own]]
        passage_rows[own] = examples.passage_rows[within[own]]
        if teacher is not None and examples.teacher is not None:
            teacher[own] = examples.teacher[within[own]]
    query = gathered([source.queries.part for source in sources], of_source, query_rows)
    parts = [source.passages.part for source in sources]
    passage = gathered(parts, np.repeat(of_source, width), passage_rows.reshape(-1))
    positive = _positive(sources, of_source, query_rows, passage_rows)
    return Batch(
        query=query,
        passage=passage,
        num_passages=width,
        positive=_by_text(positive, query, passage),
        teacher=teacher,
        labels=labels,
        judged=None if judged.all() else judged,
        first_stage=first_stage,
    )


def _positive(
    sources: Sequence[ExampleSource], of_source: Int64, query_rows: Int64, passage_rows: Int64
) -> NDArray[np.bool_]:
    """The batch's judged pairs, and each example's own first passage, by a source's judgements.

    RepBERT's targets are all passages of the batch that the qrels have for the query. A copy of one
    is a target too, and so is what is judged for another query of the same text: the model reads
    the same words, so a judgement of them holds whatever their id.
    """
    num, width = passage_rows.shape
    positive = np.zeros((num, num * width), bool)
    flat = passage_rows.reshape(-1)
    for number in np.unique(of_source):
        own = np.flatnonzero(of_source == number)
        columns = np.flatnonzero(np.repeat(of_source == number, width))
        queries, passages = query_rows[own][:, None], flat[columns][None, :]
        positive[np.ix_(own, columns)] = sources[number].examples.are_relevant(queries, passages)
    positive[np.arange(num), np.arange(num) * width] = True
    return positive


def _by_text(
    positive: NDArray[np.bool_], query: TextSlice, passage: TextSlice
) -> NDArray[np.bool_]:
    """The same for all texts with the same word pieces, from whichever source they come.

    So sources that share queries or passages do not take each other's relevant ones, as far as the
    batch has them, for irrelevant.
    """
    queries, passages = _firsts(query), _firsts(passage)
    found = np.zeros_like(positive)
    rows, columns = np.nonzero(positive)
    found[queries[rows], passages[columns]] = True
    return found[np.ix_(queries, passages)]


def _firsts(texts: TextSlice) -> Int64:
    """The first place with the pieces of each text."""
    firsts: dict[bytes, int] = {}
    ends = texts.starts + texts.counts
    pieces = (texts.flat[a:b].tobytes() for a, b in zip(texts.starts, ends, strict=True))
    return np.array([firsts.setdefault(each, n) for n, each in enumerate(pieces)], np.int64)


@dataclass(frozen=True, slots=True)
class PairInputs:
    """A reranker's inputs of a batch: the same number for each example, together, in order."""

    query: TextSlice
    passages: tuple[TextSlice, ...]
    """One array (monoBERT) or two (duoBERT)."""
    targets: Float32
    """1 if the first passage is the relevant one, or labelled so, otherwise 0, [I]."""
    lengths: Int64
    """Tokens, [I]."""
    per_example: int


def pair_inputs_of(batch: Batch, conventions: PairConventions, layout: Layout) -> PairInputs:
    """monoBERT: each passage. duoBERT: the relevant passage with each other one, in both orders.

    Source: Nogueira & Cho 2019, 2.2; Nogueira et al. 2019, 3.3 and the code of duobert.
    """
    width, num = batch.num_passages, batch.num_examples
    base = np.arange(num)[:, None] * width
    others = np.arange(1, width)
    if conventions.kind == "mono":
        chosen = [base + np.arange(width)[None, :]]
        pattern = np.array([1.0] + [0.0] * (width - 1), np.float32)
    else:
        first = np.stack([np.zeros_like(others), others], axis=1).reshape(-1)
        second = np.stack([others, np.zeros_like(others)], axis=1).reshape(-1)
        chosen = [base + first[None, :], base + second[None, :]]
        pattern = np.tile(np.array([1.0, 0.0], np.float32), width - 1)
    per_example = len(pattern)
    targets = np.tile(pattern, num) if batch.labels is None else batch.labels.reshape(-1)
    query = taken(batch.query, np.repeat(np.arange(num), per_example))
    passages = [taken(batch.passage, places.reshape(-1)) for places in chosen]
    texts = cut_to(conventions, query, passages, num_specials=layout.num_specials)
    lengths = layout.lengths([text.counts for text in texts])
    return PairInputs(texts[0], tuple(texts[1:]), targets, lengths, per_example)


def text_counts(batch: Batch, conventions: Conventions) -> tuple[Int64, Int64]:
    """Number of pieces that an encoder keeps of each query [E] and passage [E * L]."""
    return (
        np.minimum(batch.query.counts, conventions.query_limit),
        np.minimum(batch.passage.counts, conventions.passage_limit),
    )
