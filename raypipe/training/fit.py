"""The training itself: steps, measurements and checkpoints, resumable at any moment."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from raypipe.errors import InputError, RaypipeError
from raypipe.models.device import BUDGET_TOKENS
from raypipe.storage.records import Json
from raypipe.training.batch import read_batch
from raypipe.training.checkpoints import Checkpoint, Checkpoints
from raypipe.training.comm import Comm
from raypipe.training.job import Job, dev_of, sources_of, specials_of, trainee_of
from raypipe.training.objective import Objective
from raypipe.training.optimiser import Adam, clip_, learning_rate
from raypipe.training.sampler import Sampler
from raypipe.training.step import Worked, backward
from raypipe.training.trainee import Trainee
from raypipe.training.validate import DevData, measured

Tell = Callable[[Mapping[str, Json]], None]
"""Told each step and each measurement; called by the first worker alone."""


@dataclass
class State:
    """Where a training stands."""

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    """Each measurement: step, mean, and the value on each dev set."""
    place: dict[str, Any] = field(default_factory=dict)
    """On how many workers, threads and tokens a forward; they decide what dropout draws."""

    @property
    def best(self) -> dict[str, Any] | None:
        """The first of the highest measurements."""
        return max(self.history, key=lambda each: each["mean"], default=None)

    def since_best(self) -> int:
        """Measurements after the best one."""
        best = self.best
        return 0 if best is None else len(self.history) - 1 - self.history.index(best)


def fit(
    job: Job,
    comm: Comm,
    *,
    device: str,
    threads: int,
    tell: Tell,
    should_stop: Callable[[], RaypipeError | None] = lambda: None,
) -> Checkpoint:
    """Train to the end, or on from the newest checkpoint; the chosen checkpoint comes back.

    Chosen is the best by the measure, or the last where nothing is measured. A training that was
    interrupted anywhere ends with the weights of an undisturbed one, bit for bit at the same
    number of workers and threads in one numerics class: a step's examples and its dropout are
    computed from its number, and all other state is in the checkpoint.

    Raises:
        InputError: the loss or a gradient is not finite.
        RaypipeError: what `should_stop` gave, after a checkpoint.
    """
    torch.set_num_threads(threads)
    if device == "cuda":
        # Kernels that add in no fixed order would end a resumed training elsewhere.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    recipe = job.recipe
    loop, dev = _opened(job, comm, device)
    trainee, optimiser = loop.trainee, loop.optimiser
    checkpoints = Checkpoints(job.storage, job.folder)
    place = {"workers": comm.world, "threads": threads, "budget_tokens": loop.budget}
    state = _resume(checkpoints, loop, comm)
    if comm.rank == 0 and state.place not in ({}, place):
        tell({"step": state.step, "note": f"resumed on {place}, before on {state.place}"})
    state.place = place
    validate = recipe.validate_
    while state.step < recipe.steps and not _enough(job, state):
        began = time.monotonic()
        told = loop.step(state.step)
        state.step += 1
        if comm.rank == 0:
            seconds = time.monotonic() - began
            tell({"step": state.step, **told, "seconds": round(seconds, 4)})
        last = state.step == recipe.steps
        due = validate is not None and (state.step % validate.every == 0 or last)
        if due:
            assert validate is not None
            values = measured(trainee, job.start, dev, validate.measure, comm, loop.specials)
            mean = sum(values) / len(values)
            state.history.append({"step": state.step, "mean": mean, "values": values})
            if comm.rank == 0:
                named = dict(zip(recipe.dev, values, strict=True))
                tell({"step": state.step, "measure": validate.measure, "mean": mean, "of": named})
        stop = should_stop()
        if due or last or stop or state.step % recipe.checkpoint_every == 0:
            if comm.rank == 0:
                _save(checkpoints, trainee, optimiser, state)
            comm.barrier()
        if stop:
            raise stop
    best = state.best
    chosen = checkpoints.at(state.step if best is None else best["step"])
    return replace(chosen, facts={**chosen.facts, "history": state.history})


ELSEWHERE = "another worker could not open the training"


def _opened(job: Job, comm: Comm, device: str) -> tuple["_Loop", Sequence[DevData]]:
    """What every step needs, in every worker or in none.

    Raises:
        InputError: this worker's reason, or that another has one; in all of them, since one that
            is missing would leave the others waiting for its gradient.
    """
    problem: InputError | None = None
    opened = None
    try:
        opened = _Loop(job, comm, device), dev_of(job)
    except InputError as error:
        problem = error
    failed = torch.tensor([float(problem is not None)], device=device)
    comm.sum_([failed])
    if problem is not None:
        raise problem
    if float(failed):
        raise InputError(ELSEWHERE)
    assert opened is not None
    return opened


class _Loop:
    """What every step needs."""

    def __init__(self, job: Job, comm: Comm, device: str) -> None:
        self._job, self._comm = job, comm
        self.trainee = trainee_of(job, device)
        self.optimiser = _optimiser(job, self.trainee)
        self._sources = sources_of(job)
        num_examples = sum(source.examples.num_examples for source in self._sources)
        recipe = job.recipe
        self._sampler = Sampler(num_examples, recipe.batch, recipe.seed)
        loss = recipe.loss
        self._objective = Objective(loss.name, loss.margin, loss.temperature)
        self.specials = specials_of(job)
        budget = recipe.resources.budget_tokens
        self.budget = budget if isinstance(budget, int) else BUDGET_TOKENS[device]

    def step(self, number: int) -> dict[str, Json]:
        """One update; its loss, rate, gradient norm and tokens, over all workers."""
        recipe, trainee = self._job.recipe, self.trainee
        weights = list(trainee.weights.values())
        loss = torch.zeros((), device=trainee.device)
        tokens = 0
        for part in range(recipe.accumulation):
            batch = read_batch(
                self._sources, self._sampler.batch(number * recipe.accumulation + part)
            )
            worked: Worked = backward(
                trainee,
                batch,
                self._objective,
                self._comm,
                self.specials,
                budget_tokens=self.budget,
                weight=1 / recipe.accumulation,
                draw=(recipe.seed, number, part),
            )
            loss += worked.loss
            tokens += worked.num_tokens
        gradients = [
            torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights
        ]
        counts = torch.tensor([float(tokens)], device=trainee.device)
        total = loss.reshape(1)
        self._comm.sum_([*gradients, total, counts])
        settings = recipe.optimiser
        norm = clip_(gradients, settings.clip)
        _check(number, float(total), norm, settings.rate)
        rate = learning_rate(
            number,
            peak=settings.rate,
            warmup=settings.warmup,
            total=recipe.steps,
            decay=settings.decay,
        )
        self.optimiser.step(gradients, rate=rate, number=number + 1)
        for weight in weights:
            weight.grad = None
        return {
            "loss": float(total),
            "rate": rate,
            "gradient_norm": norm,
            "tokens": int(counts.item()),
        }


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


def _enough(job: Job, state: State) -> bool:
    """Whether the last `patience` measurements were no better than one before."""
    validate = job.recipe.validate_
    if validate is None or validate.patience is None:
        return False
    return state.since_best() >= validate.patience


def _save(checkpoints: Checkpoints, trainee: Trainee, optimiser: Adam, state: State) -> None:
    tensors = {f"weight.{name}": weight for name, weight in trainee.weights.items()}
    facts = {"history": state.history, "place": state.place}
    checkpoints.save(state.step, {**tensors, **optimiser.state()}, facts)
    best = state.best
    checkpoints.prune(None if best is None else best["step"])


def _resume(checkpoints: Checkpoints, loop: _Loop, comm: Comm) -> State:
    """The newest checkpoint that the first worker sees, in every worker."""
    newest = checkpoints.newest() if comm.rank == 0 else None
    known = 0.0 if newest is None else float(newest.step)  # one dtype in every worker
    step = torch.tensor([known], device=loop.trainee.device)
    comm.sum_([step])
    if not int(step):
        return State()
    found = checkpoints.at(int(step))
    tensors = checkpoints.load(found)
    load_weights_(loop.trainee, tensors)
    loop.optimiser.load(tensors)
    return State(found.step, list(found.facts["history"]), dict(found.facts["place"]))


@torch.no_grad()
def load_weights_(trainee: Trainee, tensors: Mapping[str, Tensor]) -> None:
    """Set the trained weights to those of a checkpoint."""
    for name, weight in trainee.weights.items():
        weight.copy_(tensors[f"weight.{name}"])
