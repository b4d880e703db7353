"""A training on Ray Train's worker group: it places and restarts workers, nothing else.

Checkpoints are raypipe's own, so that one rule says what a checkpoint is, with Ray or without,
and a killed driver's successor goes on under any name.
"""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raypipe.errors import IncompleteError, InputError, RaypipeError
from raypipe.storage.holder import Process, this_process
from raypipe.storage.records import Json
from raypipe.training.comm import Group, Solo
from raypipe.training.finish import commit
from raypipe.training.fit import ELSEWHERE, fit
from raypipe.training.job import Job
from raypipe.training.progress import parsed, write_progress

POLL_SECONDS = 0.5


def train_on_ray(
    job: Job,
    *,
    device: str,
    threads: int,
    folder: Path,
    should_stop: Callable[[], RaypipeError | None],
    on_workers: Callable[[list[Process]], None],
) -> None:
    """Train on `resources.workers` workers and commit the weights; Ray must be running.

    A worker's death restarts the group from the newest checkpoint, up to `max_failures` times.
    `on_workers` is told each worker's process.

    Raises:
        InputError: the training itself cannot go on (a loss that is not finite).
        IncompleteError: workers died too often.
        RaypipeError: what `should_stop` gave.
    """
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    recipe = job.recipe
    cuda = device == "cuda"
    shutil.rmtree(folder / "ray", ignore_errors=True)
    trainer = TorchTrainer(
        _work,
        train_loop_config={"job": job, "device": device, "threads": threads},
        scaling_config=ScalingConfig(
            num_workers=recipe.resources.workers,
            use_gpu=cuda,
            resources_per_worker={"CPU": threads, **({"GPU": 1} if cuda else {})},
        ),
        run_config=RunConfig(
            name=job.spec.fingerprint(),
            storage_path=str((folder / "ray").absolute()),
            failure_config=FailureConfig(max_failures=recipe.resources.max_failures),
        ),
    )
    outcome: dict[str, Any] = {}
    before = len(_events(job))
    known = before

    def run() -> None:
        try:
            outcome["result"] = trainer.fit()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, name="ray train", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(POLL_SECONDS)
        events = _events(job)
        workers = [e["process"] for e in events[known:] if e.get("event") == "worker"]
        if workers:
            on_workers([Process.from_json(worker) for worker in workers])
        known = len(events)
        stop = should_stop()
        if stop is not None:
            raise stop  # the group ends with this process's Ray; the newest checkpoint stays
    problem = _problem(job, before)
    if problem is not None:
        raise InputError(problem)
    if "error" in outcome:
        raise IncompleteError(
            f"{job.store}: workers ended {recipe.resources.max_failures + 1} times or could not "
            f"start: {_first_line(outcome['error'])}; checkpoints stay, the same command resumes"
        ) from outcome["error"]


def _work(config: dict[str, Any]) -> None:
    """What every worker runs."""
    import ray.train

    job: Job = config["job"]
    device: str = config["device"]
    context = ray.train.get_context()
    _note(job, {"event": "worker", "process": this_process().to_json()})
    comm = Group() if context.get_world_size() > 1 else Solo()
    try:
        checkpoint = fit(
            job,
            comm,
            device=device,
            threads=config["threads"],
            tell=lambda event: write_progress(job, event),
        )
        if comm.rank == 0:
            commit(job, checkpoint, device=device)
    except InputError as error:  # in every worker at once, and no restart would mend it
        _note(job, {"event": "problem", "reason": str(error)})
    ray.train.report({})


def _note(job: Job, event: dict[str, Json]) -> None:
    job.storage.append(f"{job.folder}/attempts.jsonl", json.dumps(event).encode())


def _events(job: Job) -> list[dict[str, Any]]:
    """The whole lines of attempts.jsonl."""
    try:
        lines = job.storage.read(f"{job.folder}/attempts.jsonl").splitlines()
    except FileNotFoundError:
        return []
    return [event for line in lines if (event := parsed(line)) is not None]


def _problem(job: Job, before: int) -> str | None:
    """Why the training itself ended, None where it did not: a finished one has its shard."""
    if job.storage.exists(f"{job.folder}/shards/00000.json"):
        return None
    events = _events(job)[before:]
    reasons = [event["reason"] for event in events if event.get("event") == "problem"]
    return next((r for r in reasons if r != ELSEWHERE), reasons[0] if reasons else None)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
