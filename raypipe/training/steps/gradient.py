"""The gradient of one global batch, however it is divided among the workers."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raypipe.models.folder.conventions import Conventions, PairConventions
from raypipe.text.batches import batches
from raypipe.text.inputs import Layouts, TextSlice, by_length, make_inputs, taken
from raypipe.training.model.trainee import Trainee
from raypipe.training.steps.batch import Batch, PairInputs, pair_inputs_of, text_counts
from raypipe.training.steps.comm import Comm
from raypipe.training.steps.objective import BATCH_LOSSES, Objective

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
    return _encoder(trainee, batch, objective, comm, layouts, weight)


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
) -> Worked:
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
    queries, passages = _vectors(trainee, query, passage, layouts)
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
    loss.backward()  # type: ignore[no-untyped-call]
    return Worked(loss.detach(), int(tokens[share].sum()))


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
