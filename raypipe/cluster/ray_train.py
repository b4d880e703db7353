"""A training on a worker group of Ray Train, which only places and restarts workers.

Checkpoints are raypipe's own. So they are the same with and without Ray, and the successor of a
killed driver can resume under any name. Workers report to the driver by lines in the training's
store.
"""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raypipe.errors import IncompleteError, InputError, RaypipeError, first_line
from raypipe.storage import ledger
from raypipe.storage.files import remove
from raypipe.storage.holder import Process, this_process
from raypipe.storage.records import Json
from raypipe.training.checkpoints import write_progress
from raypipe.training.comm import Comm, Group
from raypipe.training.export import commit
from raypipe.training.fit import ELSEWHERE, fit
from raypipe.training.job import Job


def note_worker(job: Job) -> None:
    """Record this process as a worker of the training."""
    _note(job, {"event": "worker", "process": this_process().to_json()})


def note_problem(job: Job, reason: str) -> None:
    """Record why the training itself cannot continue."""
    _note(job, {"event": "problem", "reason": reason})


def events(job: Job) -> list[dict[str, Any]]:
    """The complete lines so far."""
    try:
        return ledger.events(job.storage.read(_name(job)))
    except FileNotFoundError:
        return []


def _note(job: Job, event: dict[str, Json]) -> None:
    job.storage.append(_name(job), json.dumps(event).encode())


def _name(job: Job) -> str:
    return f"{job.folder}/attempts.jsonl"


POLL_SECONDS = 0.5
NOT_NEEDED = {"DatasetsCallback"}
"""What Ray Train adds to a group and no training here uses: a manager of data sets."""
NOT_NEEDED_ALONE = NOT_NEEDED | {"PlacementGroupCleanerCallback"}
"""The same on a cluster that ends with this process: also what frees a dead training's resources.
Each is a process, which takes four CPU seconds to start."""


def train_on_ray(
    job: Job,
    *,
    device: str,
    threads: int,
    folder: Path,
    should_stop: Callable[[], RaypipeError | None],
    on_workers: Callable[[list[Process]], None],
    check: Callable[[], None],
    alone: bool = False,
) -> None:
    """Train on `resources.workers` workers and commit the weights; Ray must be running.

    A worker's death restarts the group from the newest checkpoint, up to `max_failures` times.
    `on_workers` gets each worker's process; `check` raises if Ray itself has ended. `alone`: only
    this process uses the cluster.

    Raises:
        InputError: the training itself cannot continue (a loss that is not finite).
        IncompleteError: workers died too often, or Ray itself has ended.
        RaypipeError: the error that `should_stop` returned.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    recipe = job.recipe
    num_workers = recipe.resources.workers
    resources = {"CPU": float(threads)} | ({"GPU": 1.0} if device == "cuda" else {})
    remove(folder / "ray")
    if alone:  # nobody says that he takes this machine away
        os.environ["RAY_TRAIN_ENABLE_PREEMPTION_WATCHER"] = "0"
    before = known = len(events(job))
    trainer = TorchTrainer(
        _work,
        train_loop_config={"job": job, "device": device, "threads": threads},
        scaling_config=ScalingConfig(
            num_workers=num_workers,
            use_gpu=device == "cuda",
            resources_per_worker=resources,
        ),
        run_config=RunConfig(
            name=job.spec.fingerprint(),
            storage_path=str((folder / "ray").absolute()),
            failure_config=FailureConfig(max_failures=recipe.resources.max_failures),
        ),
    )
    _leave_out(trainer, NOT_NEEDED_ALONE if alone else NOT_NEEDED)
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            trainer.fit()
        except BaseException as error:  # raised by the waiting thread
            outcome["error"] = error

    thread = threading.Thread(target=run, name="ray train", daemon=True)
    thread.start()
    alive = True
    while alive:
        thread.join(POLL_SECONDS)
        check()
        alive = thread.is_alive()
        logged = events(job)
        workers = [e["process"] for e in logged[known:] if e.get("event") == "worker"]
        if workers:
            on_workers([Process.from_json(worker) for worker in workers])
        known = len(logged)
        stop = should_stop()
        if stop is not None:
            raise stop  # the group ends with this process's Ray; the newest checkpoint is kept
    problem = _problem(job, before)
    if problem is not None:
        raise InputError(problem)
    if "error" in outcome:
        raise IncompleteError(
            f"{job.store}: workers ended {recipe.resources.max_failures + 1} times or could not "
            f"start: {first_line(outcome['error'])}; checkpoints are kept, the same command resumes"
        ) from outcome["error"]


def _leave_out(trainer: Any, names: set[str]) -> None:
    """Let the trainer do without these callbacks of its own.

    Source: `ray.train.v2.api.data_parallel_trainer` of Ray 2.60.
    """
    made = trainer._create_default_callbacks
    trainer._create_default_callbacks = lambda: [
        each for each in made() if type(each).__name__ not in names
    ]


def _work(config: dict[str, Any]) -> None:
    """Train as one worker of the group."""
    import ray.train

    job: Job = config["job"]
    device: str = config["device"]
    context = ray.train.get_context()
    note_worker(job)
    comm = Group() if context.get_world_size() > 1 else Comm()
    try:
        fit(
            job,
            comm,
            device=device,
            threads=config["threads"],
            tell=lambda event: write_progress(job, event),
        )
        if comm.rank == 0:
            commit(job, device=device)
    except InputError as error:  # raised in every worker, and a restart would not help
        note_problem(job, str(error))
    ray.train.report({})


def _problem(job: Job, before: int) -> str | None:
    """Why the training itself ended; None if it did not."""
    if _committed(job):
        return None
    logged = events(job)[before:]
    reasons = [event["reason"] for event in logged if event.get("event") == "problem"]
    return next((r for r in reasons if r != ELSEWHERE), reasons[0] if reasons else None)


def _committed(job: Job) -> bool:
    return job.storage.exists(f"{job.folder}/shards/00000.json")
