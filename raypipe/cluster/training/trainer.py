"""A training on a worker group of Ray Train, which only places and restarts workers.

Checkpoints are raypipe's own. So they are the same with and without Ray, and the successor of a
killed driver can resume under any name.
"""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raypipe.cluster.training.checkpoint_measurer import Beside, has_room
from raypipe.cluster.training.worker_events import events, note_problem, note_worker
from raypipe.errors import IncompleteError, InputError, RaypipeError, first_line
from raypipe.storage.holder import Process
from raypipe.training.checkpoints import Checkpoints, write_progress
from raypipe.training.comm import Group, Solo
from raypipe.training.export import commit
from raypipe.training.fit import ELSEWHERE, fit
from raypipe.training.job import Job

POLL_SECONDS = 0.5


def train_on_ray(
    job: Job,
    *,
    device: str,
    threads: int,
    folder: Path,
    should_stop: Callable[[], RaypipeError | None],
    on_workers: Callable[[list[Process]], None],
    check: Callable[[], None],
) -> None:
    """Train on `resources.workers` workers and commit the weights; Ray must be running.

    A worker's death restarts the group from the newest checkpoint, up to `max_failures` times.
    If the cluster has room for one more worker, that worker measures the checkpoints meanwhile.
    `on_workers` gets each worker's process; `check` raises if Ray itself has ended.

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
    shutil.rmtree(folder / "ray", ignore_errors=True)
    before = known = len(events(job))
    wanted = recipe.validate_ is not None and recipe.resources.beside
    measured = wanted and has_room(num_workers, resources)
    if measured:
        note = "checkpoints are measured beside the trainers"
        newest = Checkpoints(job.storage, job.folder).newest()
        write_progress(job, {"step": newest.step if newest else 0, "note": note})
    beside = Beside(job, resources, device, threads) if measured else None
    trainer = TorchTrainer(
        _work,
        train_loop_config={"job": job, "device": device, "threads": threads, "beside": measured},
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
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["result"] = trainer.fit()
        except BaseException as error:  # raised by the waiting thread
            outcome["error"] = error

    thread = threading.Thread(target=run, name="ray train", daemon=True)
    thread.start()
    ended = False
    while not ended:
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
        nothing_left = beside is None or beside.look()
        ended = not alive and (
            nothing_left or "error" in outcome or _problem(job, before) is not None
        )
    problem = _problem(job, before)
    if problem is not None:
        raise InputError(problem)
    if "error" in outcome:
        raise IncompleteError(
            f"{job.store}: workers ended {recipe.resources.max_failures + 1} times or could not "
            f"start: {first_line(outcome['error'])}; checkpoints are kept, the same command resumes"
        ) from outcome["error"]
    while beside is not None and not _committed(job):
        check()
        if not beside.busy():
            beside.commit()
        time.sleep(POLL_SECONDS)
        stop = should_stop()
        if stop is not None:
            raise stop


def _work(config: dict[str, Any]) -> None:
    """What every worker runs."""
    import ray.train

    job: Job = config["job"]
    device: str = config["device"]
    context = ray.train.get_context()
    note_worker(job)
    comm = Group() if context.get_world_size() > 1 else Solo()
    try:
        fit(
            job,
            comm,
            device=device,
            threads=config["threads"],
            tell=lambda event: write_progress(job, event),
            beside=config["beside"],
        )
        if comm.rank == 0 and not config["beside"]:
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
