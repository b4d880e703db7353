"""The updates: examples, gradient, clipping, rate and optimiser of each step."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from raypipe.config.training.recipe import steps_of
from raypipe.errors import InputError
from raypipe.models.machine.device import BUDGET_TOKENS
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.storage.records import Json
from raypipe.training.examples.sampler import Sampler
from raypipe.training.examples.table import map_examples
from raypipe.training.job import Job
from raypipe.training.model.trainee import Trainee
from raypipe.training.model.worker import layouts_for, trainee_of
from raypipe.training.steps.batch import ExampleSource, read_batch
from raypipe.training.steps.comm import Comm
from raypipe.training.steps.gradient import Worked, backward
from raypipe.training.steps.objective import Objective
from raypipe.training.steps.optimiser import Adam, clip_, learning_rate


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
        self._objective = Objective(**recipe.loss.model_dump())
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
        batch = read_batch(self._sources, self._sampler.batch(number * recipe.accumulation + part))
        return backward(
            self.trainee,
            batch,
            self._objective,
            self._comm,
            self._layouts,
            budget_tokens=self.budget,
            weight=1 / recipe.accumulation,
            draw=(recipe.seed, number, part),
        )


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
