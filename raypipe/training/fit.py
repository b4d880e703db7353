"""The training itself: steps, measurements and checkpoints, resumable at any moment."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from raypipe.config.training import steps_of
from raypipe.errors import InputError, RaypipeError, RefusedError
from raypipe.storage.records import Json
from raypipe.training.checkpoints import Checkpoints, History, history_of, unmeasured
from raypipe.training.comm import Comm, make_deterministic
from raypipe.training.job import Job
from raypipe.training.pretrain import PretrainingUpdates
from raypipe.training.steps import Updates, load_weights_
from raypipe.training.validate import DevMeasures, progress_of

Tell = Callable[[Mapping[str, Json]], None]
"""Receives each step, each measurement and notes; only the first worker calls it."""
ELSEWHERE = "another worker could not open the training"


@dataclass
class State:
    """The state of a training."""

    step: int = 0
    place: dict[str, Any] = field(default_factory=dict)
    """The numbers of workers, threads and tokens per forward pass, which decide what dropout
    draws."""


def fit(
    job: Job,
    comm: Comm,
    *,
    device: str,
    threads: int,
    tell: Tell,
    should_stop: Callable[[], RaypipeError | None] = lambda: None,
) -> None:
    """Train to the end, from the newest checkpoint if there is one; `commit` then chooses one.

    The start model is measured first, as step 0, unless an earlier invocation has done so.

    An interrupted training ends with the weights of an undisturbed one, bit for bit, with the same
    number of workers and threads in one numerics class: a step's examples and its dropout are
    computed from its number, and all other state is in the checkpoint.

    Args:
        job: the training.
        comm: which worker this is.
        device: cpu or cuda.
        threads: number of this worker's threads.
        tell: see Tell.
        should_stop: called after each step.

    Raises:
        InputError: the loss or a gradient is not finite.
        RaypipeError: the error that `should_stop` returned, after saving a checkpoint; at once if
            it is a RefusedError: another invocation has taken over.
    """
    make_deterministic(device, threads)
    updates, measuring = _opened(job, comm, device)
    checkpoints, history = Checkpoints(job.storage, job.folder), history_of(job)

    def measure(step: int) -> None:
        values = measuring.values(updates.trainee, comm)
        if comm.rank == 0:
            tell(progress_of(job, history.add(step, values)))

    state = _resume(checkpoints, updates, comm)
    lacking = comm.rank == 0 and state.step == 0 and history.lacks_start()
    if _agreed(comm, updates, lacking):
        measure(0)  # there is no checkpoint of it
    _measure_missing(job, checkpoints, updates, comm, history, state.step, measure)
    place = {"workers": comm.world, "threads": threads, "budget_tokens": updates.budget}
    if comm.rank == 0 and state.place not in ({}, place):
        tell({"step": state.step, "note": f"resumed on {place}, before on {state.place}"})
    state.place = place
    steps, every = steps_of(job.recipe), job.recipe.checkpoint_every
    ended = _agreed(comm, updates, comm.rank == 0 and history.ended(state.step))
    while state.step < steps and not ended:
        began = time.monotonic()
        facts = updates.step(state.step)
        state.step += 1
        if comm.rank == 0:
            seconds = round(time.monotonic() - began, 4)
            speed = round(facts["tokens"] / max(seconds, 1e-4), 1)
            tell({"step": state.step, **facts, "seconds": seconds, "tokens_per_second": speed})
        due = history.is_due(state.step)
        stop = should_stop()
        if isinstance(stop, RefusedError):
            raise stop  # the training is another invocation's now, with its checkpoints
        if due or stop or state.step == steps or state.step % every == 0:
            if comm.rank == 0:
                _save(checkpoints, updates, state, history)
            comm.barrier()
        if due:
            measure(state.step)
            ended = _agreed(comm, updates, comm.rank == 0 and history.ended(state.step))
        if stop:
            raise stop


def _opened(job: Job, comm: Comm, device: str) -> tuple[Updates, DevMeasures]:
    """The updates and dev measures of every step, opened in every worker or in none.

    A wrong dev set thus ends the training before its first step.

    Raises:
        InputError: this worker's problem, or that another has one. All workers raise it, since the
            others would otherwise wait for a missing worker's gradient.
    """
    problem: InputError | None = None
    opened = None
    try:
        kind = PretrainingUpdates if job.is_pretraining else Updates
        opened = kind(job, comm, device), DevMeasures(job)
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


def _agreed(comm: Comm, updates: Updates, value: bool) -> bool:
    """The first worker's value, in every worker, where the others give False."""
    flag = torch.tensor([float(value)], device=updates.trainee.device)
    comm.sum_([flag])
    return bool(flag)


def _save(checkpoints: Checkpoints, updates: Updates, state: State, history: History) -> None:
    tensors = {f"weight.{name}": weight for name, weight in updates.trainee.weights.items()}
    checkpoints.save(state.step, {**tensors, **updates.optimiser.state()}, {"place": state.place})
    checkpoints.prune(history.kept(state.step), up_to=state.step)


def _resume(checkpoints: Checkpoints, updates: Updates, comm: Comm) -> State:
    """The newest checkpoint seen by the first worker, loaded in every worker."""
    newest = checkpoints.newest() if comm.rank == 0 else None
    known = 0.0 if newest is None else float(newest.step)  # one dtype in every worker
    step = torch.tensor([known], device=updates.trainee.device)
    comm.sum_([step])
    if not int(step):
        return State()
    checkpoint = checkpoints.at(int(step))
    tensors = checkpoints.load(checkpoint)
    load_weights_(updates.trainee, tensors)
    updates.optimiser.load(tensors)
    return State(checkpoint.step, dict(checkpoint.facts["place"]))


def _measure_missing(
    job: Job,
    checkpoints: Checkpoints,
    updates: Updates,
    comm: Comm,
    history: History,
    step: int,
    measure: Callable[[int], None],
) -> None:
    """Measure what an interruption left unmeasured, then restore the weights of `step`.

    Raises:
        InputError: a checkpoint that is to be measured no longer exists.
    """
    due = history.due(step)
    if not due:
        return
    missing = history.missing(step) if comm.rank == 0 else []
    flags = torch.tensor([float(each in missing) for each in due], device=updates.trainee.device)
    comm.sum_([flags])
    wanted = [each for each, flag in zip(due, flags.tolist(), strict=True) if flag]
    gone = [each for each in wanted if not checkpoints.has(each)]
    if gone:
        raise unmeasured(job, gone)
    for each in wanted:
        load_weights_(updates.trainee, checkpoints.load(checkpoints.at(each)))
        measure(each)
    if wanted and wanted[-1] != step:
        load_weights_(updates.trainee, checkpoints.load(checkpoints.at(step)))
