"""Measures checkpoints beside the trainers, if the cluster has room for one more worker."""

import time
from collections.abc import Mapping
from typing import Any

from raypipe.cluster.training.worker_events import note_worker
from raypipe.errors import IncompleteError, RaypipeError, first_line
from raypipe.training.checkpoints import Checkpoints, history_of, write_progress
from raypipe.training.comm import Solo, make_deterministic
from raypipe.training.export import commit
from raypipe.training.job import Job
from raypipe.training.start import trainee_of
from raypipe.training.steps import load_weights_
from raypipe.training.validate import Measuring, progress_of

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
    trainee, measuring = trainee_of(job, device), Measuring(job)
    load_weights_(trainee, checkpoints.load(checkpoints.at(step)))
    write_progress(job, progress_of(job, history.add(step, measuring.values(trainee, Solo()))))


def _commit(job: Job, device: str, threads: int) -> None:
    """See `finish.commit`."""
    note_worker(job)
    commit(job, device=device)
