"""A training on a worker group of Ray Train, which only places and restarts workers.

Checkpoints are raypipe's own. So they are the same with and without Ray, and the successor of a
killed driver can resume under any name. They are measured beside the trainers, if the cluster has
room for one more worker. Workers report to the driver by lines in the training's store.
"""

import json
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from raypipe.errors import IncompleteError, InputError, RaypipeError, first_line
from raypipe.storage import ledger
from raypipe.storage.holder import Process, this_process
from raypipe.storage.records import Json
from raypipe.training.checkpoints import Checkpoints, history_of, write_progress
from raypipe.training.comm import Comm, Group, make_deterministic
from raypipe.training.export import commit
from raypipe.training.fit import ELSEWHERE, fit
from raypipe.training.job import Job
from raypipe.training.start import trainee_of
from raypipe.training.steps import load_weights_
from raypipe.training.validate import DevMeasures, progress_of


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


ROOM_SECONDS = 5.0
"""Resources released by earlier stages are counted as free only after a moment."""


def has_room(num_workers: int, resources: Mapping[str, float]) -> bool:
    """Whether the nodes fit the workers and one more, and enough is free."""
    import ray

    def places(free: Mapping[str, float]) -> int:
        return min(int(free.get(name, 0) // each) for name, each in resources.items())

    def whole() -> int:
        return sum(places(node["Resources"]) for node in ray.nodes() if node["Alive"])

    end = time.monotonic() + ROOM_SECONDS
    while whole() > num_workers and time.monotonic() < end:
        if places(ray.available_resources()) > num_workers:
            return True
        time.sleep(0.1)
    return False


class Beside:
    """Gives one checkpoint after another to a task with the resources of a trainer.

    The task holds its resources only while it measures, so restarted trainers find theirs.
    Measurements are records that are created once. So the successor of a dead task, another
    driver's task, or trainers that measure themselves continue from the existing ones.
    """

    def __init__(self, job: Job, resources: Mapping[str, float], device: str, threads: int) -> None:
        """Starts nothing yet."""
        self._job, self._place, self._resources = job, (device, threads), resources
        self._checkpoints, self._history = Checkpoints(job.storage, job.folder), history_of(job)
        self._under_way: Any = None
        self._failures = 0

    def look(self) -> bool:
        """Start the next checkpoint if none is being measured; True if nothing is left to do.

        Raises:
            IncompleteError: tasks failed too often.
            RaypipeError: the error of a task.
        """
        if self.busy():
            return False
        newest = self._checkpoints.newest()
        missing = [] if newest is None else self._history.missing(newest.step)
        ready = [step for step in missing if self._checkpoints.has(step)]
        if ready:
            self._start(_measure, ready[0])
        return not ready

    def commit(self) -> None:
        """Start committing the chosen checkpoint, in a task with the training's device."""
        self._start(_commit)

    def busy(self) -> bool:
        """Whether a task is running; raises the errors of `look`."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        if self._under_way is None:
            return False
        ready, _ = ray.wait([self._under_way], timeout=0)
        if not ready:
            return True
        task, self._under_way = self._under_way, None
        try:
            ray.get(task)
        except RayError as error:
            if isinstance(error, RayTaskError) and isinstance(error.cause, RaypipeError):
                raise error.cause from None
            self._failures += 1
            if self._failures > self._job.recipe.resources.max_failures:
                raise IncompleteError(
                    f"{self._job.store}: the task that measures beside the trainers ended "
                    f"{self._failures} times: {first_line(error)}; checkpoints are kept, the same "
                    "command resumes, with resources.beside=false without it"
                ) from error
        return False

    def _start(self, work: Any, *arguments: int) -> None:
        import ray

        remote = ray.remote(
            num_cpus=self._resources["CPU"],
            num_gpus=self._resources.get("GPU", 0),
            max_retries=0,
            max_calls=1,  # the process ends and frees its memory
        )
        self._under_way = remote(work).remote(self._job, *self._place, *arguments)


def _measure(job: Job, device: str, threads: int, step: int) -> None:
    """Add a checkpoint's measurement to the history and to the progress."""
    note_worker(job)
    make_deterministic(device, threads)
    checkpoints, history = Checkpoints(job.storage, job.folder), history_of(job)
    trainee, measuring = trainee_of(job, device), DevMeasures(job)
    load_weights_(trainee, checkpoints.load(checkpoints.at(step)))
    write_progress(job, progress_of(job, history.add(step, measuring.values(trainee, Comm()))))


def _commit(job: Job, device: str, threads: int) -> None:
    """See `finish.commit`."""
    note_worker(job)
    commit(job, device=device)


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
    comm = Group() if context.get_world_size() > 1 else Comm()
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
