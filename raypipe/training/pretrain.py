"""Pre-training: batches of masked stretches, their losses and updates."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import open_tokenizer
from raypipe.models.folder.settings import PretrainedConventions
from raypipe.models.machine.device import BUDGET_TOKENS
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.text.batches import batches
from raypipe.text.inputs import Inputs, Layouts, TextSlice, make_inputs
from raypipe.training.batch import gathered
from raypipe.training.comm import Comm
from raypipe.training.examples import Sampler, permuted
from raypipe.training.job import Job
from raypipe.training.start import layouts_for
from raypipe.training.steps import Updates, Worked, seed_dropout, share_of
from raypipe.training.stretches import Stretches, map_stretches, read
from raypipe.training.trainee import Trainee

Int64 = NDArray[np.int64]
MASKED, RANDOM = 0.8, 0.1
"""Of the predicted pieces, those replaced by [MASK] and by a random piece; the others stay."""
PAIR, MASK = 0, 1
"""What is drawn: how a pair is cut, or what is masked."""
MEASURED = 0
"""The step whose draws held-out inputs have; the steps of a training count from 1."""
NOT_PREDICTED = -1


def generator(purpose: int, seed: int, step: int, row: int) -> np.random.Generator:
    """The draws for one purpose of one row in one step: a pure function of these numbers."""
    return np.random.default_rng([purpose, seed, step, row])


@dataclass(frozen=True, slots=True)
class Rule:
    """The settings of masking, from the recipe and the tokenizer."""

    share: float
    mask_id: int
    num_words: int
    """Size of the vocabulary, from which a random piece is drawn, as in BERT's own code."""
    special_ids: tuple[int, ...]
    """Tokens that are never predicted: [CLS] and [SEP]."""


def masked(inputs: Inputs, rows: Int64, rule: Rule, *, seed: int, step: int) -> tuple[Int64, Int64]:
    """(token ids with some replaced, the true ids of predicted pieces), int64 [T] each.

    Of an input's n word pieces, max(1, round(share n)) are predicted, halves up; all others have
    NOT_PREDICTED. What is drawn for an input depends on (seed, step, row) alone.

    Source: Devlin et al. 2019, section 3.1 and appendix A.1. BERT's own code counts [CLS] and [SEP]
    in n and predicts at most 20 (128 tokens) or 80 (512 tokens) pieces; this does neither.

    Args:
        inputs: B inputs, one after the other.
        rows: each input's number, [B].
        rule: see Rule.
        seed: the training's seed.
        step: the step, from 1, or MEASURED.
    """
    ids = inputs.ids.copy()
    targets = np.full(len(ids), NOT_PREDICTED, np.int64)
    starts = np.cumsum(inputs.lengths) - inputs.lengths
    is_piece = ~np.isin(inputs.ids, rule.special_ids)
    for start, length, row in zip(starts, inputs.lengths, rows, strict=True):
        pieces = start + np.flatnonzero(is_piece[start : start + length])
        count = min(len(pieces), max(1, int(rule.share * len(pieces) + 0.5)))
        drawn = generator(MASK, seed, step, int(row))
        chosen = np.sort(drawn.permutation(pieces)[:count])
        fate, words = drawn.random(count), drawn.integers(0, rule.num_words, count)
        targets[chosen] = ids[chosen]
        ids[chosen[fate < MASKED]] = rule.mask_id
        is_random = (fate >= MASKED) & (fate < MASKED + RANDOM)
        ids[chosen[is_random]] = words[is_random]
    return ids, targets


HELD_OUT_EPOCH = -1
"""What seeds the order whose first stretches are held out; the epochs of a training are others."""


@dataclass(frozen=True, slots=True)
class TextSource:
    """The stretches of one training set, in a seeded order: the first ones are held out."""

    table: Stretches
    tokens: TokenRows
    held_out: int
    seed: int
    before: int = 0
    """Number of stretches of the sets before it: a row is a stretch's number over all sets."""

    def numbers(self, places: Int64) -> Int64:
        """The stretches at these places of the seeded order."""
        size = self.table.num_stretches
        return permuted(places, size=size, seed=self.seed, epoch=HELD_OUT_EPOCH)

    @property
    def num_trained(self) -> int:
        """Number of stretches that are not held out."""
        return self.table.num_stretches - self.held_out


@dataclass(frozen=True, slots=True)
class Chosen:
    """Stretches of several sets: the number of each one's set, and its place there, [B] each."""

    of_source: Int64
    places: Int64


def trained(sources: Sequence[TextSource], numbers: Int64) -> Chosen:
    """The stretches with these numbers among those of all sets that are not held out."""
    edges = np.cumsum([source.num_trained for source in sources])
    of_source = np.searchsorted(edges, numbers, side="right")
    held = np.array([source.held_out for source in sources])
    within = numbers - np.concatenate([[0], edges])[of_source]
    return Chosen(of_source.astype(np.int64), within + held[of_source])


def rows_of(sources: Sequence[TextSource], chosen: Chosen) -> Int64:
    """Each stretch's row: its number over all sets in the order of the text, int64 [B]."""
    rows = np.empty(len(chosen.places), np.int64)
    for number, source in enumerate(sources):
        own = chosen.of_source == number
        rows[own] = source.numbers(chosen.places[own]) + source.before
    return rows


def texts_of(sources: Sequence[TextSource], rows: Int64, separator: int) -> TextSlice:
    """The texts of rows, in their order."""
    starts = np.array([source.before for source in sources])
    of_source = np.searchsorted(starts, rows, side="right") - 1
    texts = [partial(read, source.table, source.tokens, separator) for source in sources]
    return gathered(texts, of_source, rows - starts[of_source])


def text_sources(job: Job) -> list[TextSource]:
    """The training sets as mapped sources.

    Raises:
        InputError: a set has no more stretches than are held out.
    """
    masking = job.recipe.masking
    assert masking is not None
    sources: list[TextSource] = []
    before = 0
    for name, stores in zip(job.recipe.train, job.texts, strict=True):
        table = map_stretches(stores.stretches.path(stores.stretches.manifest.records[0]))
        if table.num_stretches <= masking.held_out:
            raise InputError(
                f"masking.held_out: {masking.held_out:,} inputs of train.{name}, which has "
                f"{table.num_stretches:,}; hold out fewer"
            )
        tokens = TokenRows(stores.tokens)
        sources.append(TextSource(table, tokens, masking.held_out, job.recipe.seed, before))
        before += table.num_stretches
    return sources


FOLLOWS, OTHER = 0, 1
"""B follows A; B is of another stretch. The units of BERT's own classifier."""


def pairs(
    sources: Sequence[TextSource],
    chosen: Chosen,
    rows: Int64,
    *,
    separator: int,
    limit: int,
    seed: int,
    step: int,
) -> tuple[TextSlice, TextSlice, Int64]:
    """(A, B, FOLLOWS or OTHER) of each stretch, [B].

    A is the beginning of a stretch, up to a place drawn uniformly. For about half of them B is the
    rest of the stretch. For the others it begins at a drawn place of another stretch of the same
    set (a held-out one if this one is held out) and ends where that ends, or where A and B together
    have `limit` pieces. A set with a single such stretch has no others.

    Source: Devlin et al. 2019, section 3.1; where a text is cut is ours, as a passage's sentences
    are not known.

    Args:
        sources: the training sets.
        chosen: the stretches, of at least two pieces.
        rows: their rows.
        separator: the id of [SEP].
        limit: pieces of both texts together.
        seed: the training's seed.
        step: the step, from 1, or MEASURED.
    """
    text = texts_of(sources, rows, separator)
    sizes = text.counts.tolist()
    first = np.empty(len(rows), np.int64)
    others = chosen.places.copy()
    fractions = np.empty(len(rows))
    for number, row in enumerate(rows.tolist()):
        drawn = generator(PAIR, seed, step, row)
        first[number] = drawn.integers(1, sizes[number])
        is_other, fractions[number] = drawn.random() < 0.5, drawn.random()
        source, place = sources[chosen.of_source[number]], int(chosen.places[number])
        low, high = _alike(source, place)
        if is_other and high - low > 1:
            others[number] = low + (place - low + drawn.integers(1, high - low)) % (high - low)
    differs = others != chosen.places
    second = texts_of(sources, rows_of(sources, Chosen(chosen.of_source, others)), separator)
    begin = np.where(differs, (fractions * second.counts).astype(np.int64), first)
    room = np.minimum(second.counts - begin, limit - first)
    return (
        TextSlice(text.flat, text.starts, first),
        TextSlice(second.flat, second.starts + begin, room),
        np.where(differs, OTHER, FOLLOWS),
    )


def _alike(source: TextSource, place: int) -> tuple[int, int]:
    """The places that are held out like this one, or trained like it."""
    if place < source.held_out:
        return 0, source.held_out
    return source.held_out, source.table.num_stretches


@dataclass(frozen=True, slots=True)
class MaskedBatch:
    """B inputs with T tokens."""

    inputs: Inputs
    """Masked."""
    targets: Int64
    """The true id of each predicted piece, otherwise NOT_PREDICTED, [T]."""
    follows: Int64 | None
    """FOLLOWS or OTHER, [B]; None without next-sentence prediction."""

    @property
    def num_words(self) -> int:
        """Number of predicted pieces."""
        return int((self.targets != NOT_PREDICTED).sum())

    def part(self, rows: Int64) -> "MaskedBatch":
        """Some inputs, in the order of `rows`."""
        lengths = self.inputs.lengths
        starts, own = np.cumsum(lengths) - lengths, lengths[rows]
        before = np.cumsum(own) - own
        source = np.arange(int(own.sum())) + np.repeat(starts[rows] - before, own)
        inputs = self.inputs
        return MaskedBatch(
            Inputs(inputs.ids[source], inputs.positions[source], inputs.segments[source], own),
            self.targets[source],
            None if self.follows is None else self.follows[rows],
        )


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the batches of one training."""

    sources: Sequence[TextSource]
    layouts: Layouts
    rule: Rule
    next_sentence: bool
    total_limit: int
    seed: int

    def batch(self, chosen: Chosen, step: int) -> MaskedBatch:
        """The masked inputs of some stretches; `step` counts from 1, or is MEASURED.

        Each input is a pure function of (seed, step, row) and the text.
        """
        rows = rows_of(self.sources, chosen)
        single = self.layouts["text"]
        ((separator,),) = single.behind
        if self.next_sentence:
            layout = self.layouts["pair"]
            first, second, follows = pairs(
                self.sources,
                chosen,
                rows,
                separator=separator,
                limit=self.total_limit - layout.num_specials,
                seed=self.seed,
                step=step,
            )
            inputs = make_inputs([first, second], layout)
        else:
            inputs = make_inputs([texts_of(self.sources, rows, separator)], single)
            follows = None
        ids, targets = masked(inputs, rows, self.rule, seed=self.seed, step=step)
        return MaskedBatch(
            Inputs(ids, inputs.positions, inputs.segments, inputs.lengths), targets, follows
        )


def summed_losses(trainee: Trainee, batch: MaskedBatch) -> tuple[Tensor, Tensor | None]:
    """The cross-entropy of all predicted pieces, and of all pairs; fp32 scalars.

    Divided by the number of pieces and of pairs in the whole batch they add up to the loss of
    transformers' BertForPreTraining. Source: Devlin et al. 2019, appendix A.2.
    """
    places = torch.from_numpy(np.flatnonzero(batch.targets != NOT_PREDICTED)).to(trainee.device)
    words, follows = trainee.predictions(
        batch.inputs, places, next_sentence=batch.follows is not None
    )
    targets = torch.from_numpy(batch.targets).to(trainee.device)[places]
    of_words = F.cross_entropy(words, targets, reduction="sum")
    if batch.follows is None or follows is None:
        return of_words, None
    labels = torch.from_numpy(batch.follows).to(trainee.device)
    return of_words, F.cross_entropy(follows, labels, reduction="sum")


class PretrainingUpdates(Updates):
    """The updates of a pre-training; a step's batch has `batch` times `accumulation` inputs."""

    def _open(self) -> None:
        recipe = self._job.recipe
        self._maker = maker_of(self._job)
        num_trained = sum(source.num_trained for source in self._maker.sources)
        self._sampler = Sampler(num_trained, recipe.batch * recipe.accumulation, recipe.seed)

    def _num_parts(self) -> int:
        return 1  # all of a step's inputs are one batch, whose predicted pieces have one mean

    def _backward(self, number: int, part: int) -> Worked:
        chosen = trained(self._maker.sources, self._sampler.batch(number))
        return backward(
            self.trainee,
            self._maker.batch(chosen, number + 1),
            self._comm,
            budget_tokens=self.budget,
            draw=(self._job.recipe.seed, number),
        )


def backward(
    trainee: Trainee,
    batch: MaskedBatch,
    comm: Comm,
    *,
    budget_tokens: int,
    draw: tuple[int, ...],
) -> Worked:
    """Add this worker's share of the batch's loss to the gradients.

    The loss is the mean over the batch's predicted pieces, plus that over its pairs. The sum over
    workers is its gradient; inputs are distributed by length, so that workers have equal work.

    Args:
        trainee: the model; gradients are added to `.grad` of its weights.
        batch: the same on every worker.
        comm: which worker this is.
        budget_tokens: tokens in one forward pass.
        draw: what seeds dropout, together with the worker and the forward pass.
    """
    lengths = batch.inputs.lengths
    num_words, num_inputs = max(1, batch.num_words), len(lengths)
    share = share_of(lengths, comm)
    loss: Tensor = torch.zeros((), device=trainee.device)
    for number, places in enumerate(batches(lengths[share], budget_tokens=budget_tokens)):
        seed_dropout(*draw, comm.rank, number)
        of_words, of_pairs = summed_losses(trainee, batch.part(share[places]))
        part = of_words / num_words
        if of_pairs is not None:
            part = part + of_pairs / num_inputs
        part.backward()  # type: ignore[no-untyped-call]
        loss += part.detach()
    return Worked(loss, int(lengths[share].sum()))


def maker_of(job: Job) -> Maker:
    """The maker of the masked inputs of a training.

    Raises:
        InputError: the tokenizer has no [MASK], or a set has too few inputs.
    """
    conventions, masking = job.conventions, job.recipe.masking
    assert isinstance(conventions, PretrainedConventions) and masking is not None
    layouts = layouts_for(job)
    return Maker(
        text_sources(job),
        layouts,
        rule_of(job, layouts, masking.share),
        masking.next_sentence,
        conventions.total_limit,
        job.recipe.seed,
    )


def rule_of(job: Job, layouts: Layouts, share: float) -> Rule:
    """The masking rule with the tokenizer's own ids.

    Raises:
        InputError: the tokenizer has no [MASK].
    """
    tokenizer, mask = open_tokenizer(job.start), job.start.family.pretraining.MASK
    mask_id = tokenizer.token_to_id(mask)
    if mask_id is None:
        raise InputError(f"{job.start.folder}: the tokenizer has no {mask}, which masking needs")
    layout = layouts["pair"]
    special = tuple(sorted({*layout.before, *chain(*layout.behind)}))
    return Rule(share, mask_id, tokenizer.get_vocab_size(), special)


def measured_losses(trainee: Trainee, maker: Maker, comm: Comm) -> list[float]:
    """The mean cross-entropy of the predicted pieces of each set's held-out inputs.

    Every checkpoint has the same inputs, masked once. The inputs are divided into forward passes
    before the workers share them, so that their number changes no value.
    """
    with trainee.measuring():
        return [_one(trainee, maker, number, comm) for number in range(len(maker.sources))]


def _one(trainee: Trainee, maker: Maker, number: int, comm: Comm) -> float:
    places = np.arange(maker.sources[number].held_out)
    batch = maker.batch(Chosen(np.full(len(places), number), places), MEASURED)
    parts = list(batches(batch.inputs.lengths, budget_tokens=BUDGET_TOKENS[trainee.device]))
    sums = torch.zeros(len(parts), dtype=torch.float64, device=trainee.device)
    for place in range(comm.rank, len(parts), comm.world):
        of_words, _ = summed_losses(trainee, batch.part(parts[place]))
        sums[place] = of_words.double()
    comm.sum_([sums])  # each pass has one owner, so the sum is its own value
    return float(sums.sum()) / max(1, batch.num_words)
