"""One step of a training: the gradient of a global batch, and the optimiser's update."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raypipe.config.training import steps_of
from raypipe.config.training_rules import SPARSITY
from raypipe.errors import InputError
from raypipe.models.folder.settings import Conventions, PairConventions
from raypipe.models.machine.device import BUDGET_TOKENS
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.storage.records import Json
from raypipe.text.batches import batches
from raypipe.text.inputs import Layouts, TextSlice, by_length, make_inputs, taken
from raypipe.training.batch import (
    Batch,
    ExampleSource,
    PairInputs,
    pair_inputs_of,
    read_batch,
    text_counts,
)
from raypipe.training.comm import Comm
from raypipe.training.examples import Sampler, map_examples
from raypipe.training.job import Job
from raypipe.training.losses import BATCH_LOSSES, Objective
from raypipe.training.sparsity import Penalty, penalty_of
from raypipe.training.start import is_normalisation, layouts_for, trainee_of
from raypipe.training.trainee import Trainee


def learning_rate(
    step: int, *, peak: float, warmup: int, total: int, decay: str = "linear"
) -> float:
    """The rate of a step, counted from 0.

    It rises linearly from 0 over `warmup` steps. Then `linear` falls from the peak to 0 at `total`,
    as in transformers; `linear-from-start` is the line from the peak at step 0, as in BERT's own
    code (2.5% lower after 10k of 400k steps); `constant` keeps the peak.
    """
    if step < warmup:
        return peak * step / warmup
    if decay == "constant":
        return peak
    start = warmup if decay == "linear" else 0
    return peak * max(0.0, (total - step) / max(1, total - start))


def decays(name: str) -> bool:
    """Whether a weight decays; biases and normalisations do not (Devlin et al. 2019)."""
    return not name.endswith(".bias") and not is_normalisation(name)


def clip_(gradients: Sequence[Tensor], limit: float) -> float:
    """The Euclidean norm of all gradients together; scales them to `limit` if it exceeds that.

    A limit of 0 is none. Rows of at least one dimension are summed first: on a CPU, torch's fp32
    norm of a table of 23 million equal numbers is 1% off; of rows of 768, 3e-7.
    """
    rows = [torch.linalg.vector_norm(g.reshape(-1, g.shape[-1]).float(), dim=1) for g in gradients]
    norm = torch.linalg.vector_norm(torch.cat(rows).double())
    if limit > 0:
        scale = torch.clamp(limit / (norm + 1e-6), max=1.0).float()
        torch._foreach_mul_(list(gradients), scale)
    return float(norm)


class Adam:
    """Adam with decoupled weight decay over named weights.

    Source: Loshchilov & Hutter 2019, Algorithm 2. `bias_correction=False` is BERT's own optimiser
    (eps 1e-6), True is torch.optim.AdamW.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ) -> None:
        """The moments start at zero."""
        self._names = list(weights)
        self._weights = list(weights.values())
        self._betas, self._eps = betas, eps
        self._decay = [weight_decay if decays(name) else 0.0 for name in self._names]
        self._bias_correction = bias_correction
        self._first = [torch.zeros_like(w, dtype=torch.float32) for w in self._weights]
        self._second = [torch.zeros_like(w, dtype=torch.float32) for w in self._weights]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], *, rate: float, number: int) -> None:
        """Update the weights in place; `number` counts updates from 1."""
        beta1, beta2 = self._betas
        grads = list(gradients)
        torch._foreach_mul_(self._first, beta1)
        torch._foreach_add_(self._first, grads, alpha=1 - beta1)
        torch._foreach_mul_(self._second, beta2)
        torch._foreach_addcmul_(self._second, grads, grads, 1 - beta2)
        scale1 = 1 - beta1**number if self._bias_correction else 1.0
        scale2 = 1 - beta2**number if self._bias_correction else 1.0
        roots = torch._foreach_sqrt(self._second)
        torch._foreach_div_(roots, scale2**0.5)
        torch._foreach_add_(roots, self._eps)
        torch._foreach_mul_(self._weights, [1 - rate * decay for decay in self._decay])
        torch._foreach_addcdiv_(self._weights, self._first, roots, -rate / scale1)

    def state(self) -> dict[str, Tensor]:
        """Both moments by name, `first.NAME` and `second.NAME`."""
        first = {f"first.{n}": t for n, t in zip(self._names, self._first, strict=True)}
        second = {f"second.{n}": t for n, t in zip(self._names, self._second, strict=True)}
        return first | second

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore the moments that `state` returned."""
        for name, own in self.state().items():
            own.copy_(state[name])


Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Worked:
    """The loss and the work of one batch."""

    loss: Tensor
    """This worker's share of the batch's mean loss, a scalar."""
    num_tokens: int
    """Number of tokens of this worker."""


def backward(
    trainee: Trainee,
    batch: Batch,
    objective: Objective,
    comm: Comm,
    layouts: Layouts,
    *,
    budget_tokens: int,
    weight: float,
    draw: tuple[int, ...],
    penalty: Penalty | None = None,
) -> Worked:
    """Add this worker's share of `weight` times the batch's mean loss to the gradients.

    The sum over workers is the gradient of the mean over the whole batch. Examples are distributed
    by length, so that workers have equal work; a forward pass has at most `budget_tokens` tokens.

    Args:
        trainee: the model; gradients are added to `.grad` of its weights.
        batch: the same on every worker.
        objective: the loss.
        comm: which worker this is.
        layouts: how inputs are made.
        budget_tokens: tokens in one forward pass of a reranker; an encoder's batch is never
            divided, since its passages are each other's negatives.
        weight: 1 over the number of batches of a step.
        draw: what seeds dropout, together with the worker and the forward pass.
        penalty: of a splade model, added to the loss.
    """
    if isinstance(trainee.conventions, PairConventions):
        inputs = pair_inputs_of(batch, trainee.conventions, layouts["pair"])
        tokens = inputs.lengths.reshape(-1, inputs.per_example).sum(axis=1)
        share = share_of(tokens, comm)
        loss = torch.zeros((), device=trainee.device)
        for number, places in enumerate(batches(tokens[share], budget_tokens=budget_tokens)):
            seed_dropout(*draw, comm.rank, number)
            each = _pair_losses(trainee, batch, inputs, share[places], objective, layouts)
            part = each.sum() * (weight / batch.num_examples)
            part.backward()  # type: ignore[no-untyped-call]
            loss += part.detach()
        return Worked(loss, int(tokens[share].sum()))
    seed_dropout(*draw, comm.rank)
    return _encoder(trainee, batch, objective, comm, layouts, weight, penalty)


def _pair_losses(
    trainee: Trainee,
    batch: Batch,
    inputs: PairInputs,
    examples: Int64,
    objective: Objective,
    layouts: Layouts,
) -> Tensor:
    """The losses of some examples, [E]."""
    conventions = trainee.conventions
    assert isinstance(conventions, PairConventions)
    width = inputs.per_example
    places = (examples[:, None] * width + np.arange(width)[None, :]).reshape(-1)
    order = np.argsort(inputs.lengths[places], kind="stable")
    sorted_places = places[order]
    texts = [taken(text, sorted_places) for text in (inputs.query, *inputs.passages)]
    units = trainee.units(make_inputs(texts, layouts["pair"]))
    units = units[torch.from_numpy(np.argsort(order)).to(units.device)]
    return objective.of_units(
        units,
        inputs.targets[places],
        width,
        None if batch.teacher is None else batch.teacher[examples],
        conventions.relevant_label,
        duo=conventions.kind == "duo",
        judged=None if batch.judged is None else batch.judged[examples],
        first_stage=None if batch.first_stage is None else batch.first_stage[examples],
    )


def _encoder(
    trainee: Trainee,
    batch: Batch,
    objective: Objective,
    comm: Comm,
    layouts: Layouts,
    weight: float,
    penalty: Penalty | None,
) -> Worked:
    width = batch.num_passages
    shares, tokens, queries, passages = _own_vectors(trainee, batch, comm, layouts)
    share = shares[comm.rank]
    every = torch.cat(comm.gathered(passages))
    scores = queries @ every.T
    # Columns are ordered by worker; the batch's own order is that of the shares, one after another.
    columns = [(s[:, None] * width + np.arange(width)[None, :]).reshape(-1) for s in shares]
    positive = batch.positive[np.ix_(share, np.concatenate(columns))]
    before = sum(len(s) for s in shares[: comm.rank]) * width
    firsts = torch.arange(len(share), device=scores.device) * width + before
    if objective.name in BATCH_LOSSES:
        relevant = torch.from_numpy(positive).to(scores.device)
        each = objective.of_batch(scores, relevant, firsts)
    else:
        lists = scores.gather(1, firsts[:, None] + torch.arange(width, device=scores.device))
        each = objective.of_lists(lists, None if batch.teacher is None else batch.teacher[share])
    loss = each.sum() * (weight / batch.num_examples)
    value = loss.detach()
    if penalty is not None:
        counts = (batch.num_examples, batch.num_examples * width)
        added, whole = penalty.share(_summed(queries, passages), counts, comm)
        loss = loss + weight * added
        value = value + whole * (weight / comm.world)
    loss.backward()  # type: ignore[no-untyped-call]
    return Worked(value, int(tokens[share].sum()))


def word_sums(
    trainee: Trainee, batch: Batch, comm: Comm, layouts: Layouts, *, draw: tuple[int, ...]
) -> Tensor:
    """The sums of the weights of a worker's own queries and passages, fp32 [2, V].

    They have no gradients, and are those that `backward` meets with the same `draw`, bit by bit.
    """
    seed_dropout(*draw, comm.rank)
    with torch.no_grad():
        return _summed(*_own_vectors(trainee, batch, comm, layouts)[2:])


def _summed(queries: Tensor, passages: Tensor) -> Tensor:
    return torch.stack([queries.sum(dim=0), passages.sum(dim=0)])


def _own_vectors(
    trainee: Trainee, batch: Batch, comm: Comm, layouts: Layouts
) -> tuple[list[Int64], Int64, Tensor, Tensor]:
    """(the examples of each worker, tokens of all examples, this worker's vectors of queries, and
    of passages)."""
    conventions = trainee.conventions
    assert isinstance(conventions, Conventions)
    width = batch.num_passages
    of_query, of_passage = text_counts(batch, conventions)
    lengths = layouts["passage"].lengths([of_passage]).reshape(-1, width)
    tokens = layouts["query"].lengths([of_query]) + lengths.sum(axis=1)
    shares = [share_of(tokens, comm, rank) for rank in range(comm.world)]
    share = shares[comm.rank]
    own = (share[:, None] * width + np.arange(width)[None, :]).reshape(-1)
    query = replace(taken(batch.query, share), counts=of_query[share])
    passage = replace(taken(batch.passage, own), counts=of_passage[own])
    return shares, tokens, *_vectors(trainee, query, passage, layouts)


def _vectors(
    trainee: Trainee, query: TextSlice, passage: TextSlice, layouts: Layouts
) -> tuple[Tensor, Tensor]:
    """Vectors of queries and passages from one forward pass."""
    texts = {"query": query, "passage": passage}
    inputs, order = by_length([make_inputs([texts[side]], layouts[side]) for side in texts])
    vectors = trainee.vectors(inputs)
    vectors = vectors[torch.from_numpy(np.argsort(order)).to(vectors.device)]
    return vectors[: len(query.counts)], vectors[len(query.counts) :]


def share_of(tokens: Int64, comm: Comm, rank: int | None = None) -> Int64:
    """The examples of a worker: every world-th by length."""
    order = np.argsort(tokens, kind="stable")
    return order[comm.rank if rank is None else rank :: comm.world]


def seed_dropout(*draw: int) -> None:
    """Seed dropout by its purpose, so that a resumed training draws the same masks."""
    drawn = hashlib.sha256(repr(draw).encode()).digest()
    torch.manual_seed(int.from_bytes(drawn[:8], "little") >> 1)


class Updates:
    """A training's updates in one worker, with its model, optimiser and examples."""

    def __init__(self, job: Job, comm: Comm, device: str) -> None:
        self._job, self._comm = job, comm
        self.trainee = trainee_of(job, device)
        self.optimiser = _optimiser(job, self.trainee)
        budget = job.recipe.resources.budget_tokens
        self.budget = budget if isinstance(budget, int) else BUDGET_TOKENS[device]
        self._open()

    def _open(self) -> None:
        """Open what batches are made of."""
        recipe = self._job.recipe
        self._sources = sources_of(self._job)
        num_examples = sum(source.examples.num_examples for source in self._sources)
        self._sampler = Sampler(num_examples, recipe.batch, recipe.seed)
        self._objective = Objective(**recipe.loss.model_dump(exclude={*SPARSITY}))
        self._layouts = layouts_for(self._job)

    def step(self, number: int) -> dict[str, Json]:
        """Make one update; returns its loss, rate, gradient norm and tokens over all workers."""
        recipe, trainee = self._job.recipe, self.trainee
        settings = recipe.optimiser
        weights = list(trainee.weights.values())
        loss = torch.zeros(1, device=trainee.device)
        tokens = torch.zeros(1, device=trainee.device)
        summed: list[Tensor] = []
        norm, num_parts = 0.0, self._num_parts()
        for part in range(num_parts):
            worked = self._backward(number, part)
            loss += worked.loss
            tokens += worked.num_tokens
            last = part == num_parts - 1
            if last or settings.clip_after == "batch":
                own = _taken(weights)
                self._comm.sum_([*own, loss, tokens] if last else own)
                if summed:
                    torch._foreach_add_(own, summed)
                summed, norm = own, clip_(own, settings.clip)
        _check(number, float(loss), norm, settings.rate)
        rate = learning_rate(
            number,
            peak=settings.rate,
            warmup=settings.warmup,
            total=recipe.schedule_steps or steps_of(recipe),
            decay=settings.decay,
        )
        self.optimiser.step(summed, rate=rate, number=number + 1)
        return {
            "loss": float(loss),
            "rate": rate,
            "gradient_norm": norm,
            "tokens": int(tokens.item()),
        }

    def _num_parts(self) -> int:
        """The number of batches whose gradients make one update."""
        return self._job.recipe.accumulation

    def _backward(self, number: int, part: int) -> Worked:
        """Add this worker's share of a batch's gradient; its loss and tokens."""
        recipe = self._job.recipe
        if part == 0:
            self._penalty = self._penalty_of(number)
        return backward(
            self.trainee,
            self._batch(number, part),
            self._objective,
            self._comm,
            self._layouts,
            budget_tokens=self.budget,
            weight=1 / recipe.accumulation,
            draw=(recipe.seed, number, part),
            penalty=self._penalty,
        )

    def _batch(self, number: int, part: int) -> Batch:
        places = self._sampler.batch(number * self._job.recipe.accumulation + part)
        return read_batch(self._sources, places)

    def _penalty_of(self, number: int) -> Penalty | None:
        """That of a step. With several batches, a pass without gradients over all of them comes
        before the first: the penalty's gradient needs the mean over all of the step's texts."""
        recipe = self._job.recipe
        penalty = penalty_of(recipe.loss, number)
        if penalty is None or recipe.accumulation == 1:
            return penalty
        sums = None
        for part in range(recipe.accumulation):
            batch, draw = self._batch(number, part), (recipe.seed, number, part)
            own = word_sums(self.trainee, batch, self._comm, self._layouts, draw=draw)
            sums = own if sums is None else sums + own
        assert sums is not None
        self._comm.sum_([sums])
        num_queries = recipe.batch * recipe.accumulation
        counts = sums.new_tensor([num_queries, num_queries * batch.num_passages])
        return replace(penalty, means=sums / counts[:, None])


def _taken(weights: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of the weights, zeros where there is none; the weights keep none."""
    found = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
    for weight in weights:
        weight.grad = None
    return found


def _check(step: int, loss: float, norm: float, rate: float) -> None:
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise InputError(
            f"step {step + 1}: the loss is {loss} and the gradient's norm {norm}, expected finite "
            f"numbers; lower optimiser.rate (it is {rate}) or train in fp32. Checkpoints up to "
            "here are kept"
        )


def _optimiser(job: Job, trainee: Trainee) -> Adam:
    settings = job.recipe.optimiser
    return Adam(
        trainee.weights,
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        bias_correction=settings.bias_correction,
    )


@torch.no_grad()
def load_weights_(trainee: Trainee, tensors: Mapping[str, Tensor]) -> None:
    """Set the trained weights to those of a checkpoint."""
    for name, weight in trainee.weights.items():
        weight.copy_(tensors[f"weight.{name}"])


def sources_of(job: Job) -> list[ExampleSource]:
    """The training sets as mapped sources."""
    return [
        ExampleSource(
            map_examples(train.examples.path(train.examples.manifest.records[0])),
            TokenRows(train.query_tokens),
            TokenRows(train.passage_tokens),
        )
        for train in job.train
    ]
