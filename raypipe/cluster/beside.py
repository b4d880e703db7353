"""Checkpoints measured beside the trainers, where the cluster has room for one more worker."""

import time
from typing import Any

from raypipe.cluster.attempts import note_worker
from raypipe.errors import IncompleteError, RaypipeError
from raypipe.training.checkpoints import Checkpoints
from raypipe.training.comm import Solo
from raypipe.training.finish import commit
from raypipe.training.history import history_of
from raypipe.training.job import Job
from raypipe.training.loop import load_weights_
from raypipe.training.measuring import Measuring, told
from raypipe.training.opening import trainee_of
from raypipe.training.progress import write_progress

POLL_SECONDS = 0.1


def has_room(num_workers: int, resources: dict[str, float]) -> bool:
    """Whether the cluster has free what so many workers and one more take."""
    import ray

    free = ray.available_resources()
    return all(free.get(name, 0) >= (num_workers + 1) * each for name, each in resources.items())


class Measurer:
    """The worker that measures: an actor of its own, as large as a trainer."""

    def __init__(self, job: Job, device: str, threads: int) -> None:
        """Open model and dev sets.

        Raises:
            InputError: a dev set cannot be measured on.
        """
        import torch

        note_worker(job)
        torch.set_num_threads(threads)
        self._job, self._device = job, device
        self._trainee, self._measuring = trainee_of(job, device), Measuring(job)
        self._checkpoints, self._history = Checkpoints(job.storage, job.folder), history_of(job)

    def measure(self, step: int) -> None:
        """Add a checkpoint's measurement to the history and to the progress."""
        tensors = self._checkpoints.load(self._checkpoints.at(step))
        load_weights_(self._trainee, tensors)
        values = self._measuring.values(self._trainee, Solo())
        write_progress(self._job, told(self._job, self._history.add(step, values)))

    def commit(self) -> None:
        """See `finish.commit`."""
        commit(self._job, device=self._device)


class Beside:
    """The driver's side: one checkpoint after another is given to the Measurer.

    Measurements are records that are created once, so a dead Measurer's successor, another
    driver's or trainers that measure themselves go on from what is there.
    """

    def __init__(self, job: Job, resources: dict[str, float], device: str, threads: int) -> None:
        """Start the Measurer."""
        self._job, self._resources, self._arguments = job, resources, (job, device, threads)
        self._checkpoints, self._history = Checkpoints(job.storage, job.folder), history_of(job)
        self._under_way: Any = None
        self._deaths = 0
        self._start()

    def look(self) -> bool:
        """Hand on the next checkpoint if the Measurer is free; whether nothing is left to do.

        Raises:
            IncompleteError: the Measurer died too often.
            RaypipeError: what it raised.
        """
        if self._busy():
            return False
        missing = self._history.missing(self._newest())
        ready = [step for step in missing if self._checkpoints.has(step)]
        if ready:
            self._under_way = self._measurer.measure.remote(ready[0])
        return not ready

    def commit(self) -> None:
        """Let the Measurer, which has the training's device, commit the chosen checkpoint.

        Raises: see `look`; after a death of the Measurer nothing may be committed.
        """
        self._under_way = self._measurer.commit.remote()
        while self._busy():
            time.sleep(POLL_SECONDS)

    def _start(self) -> None:
        import ray

        made = ray.remote(Measurer).options(
            num_cpus=self._resources["CPU"], num_gpus=self._resources.get("GPU", 0)
        )
        self._measurer = made.remote(*self._arguments)

    def _newest(self) -> int:
        newest = self._checkpoints.newest()
        return 0 if newest is None else newest.step

    def _busy(self) -> bool:
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        if self._under_way is None:
            return False
        ready, _ = ray.wait([self._under_way], timeout=0)
        if not ready:
            return True
        call, self._under_way = self._under_way, None
        try:
            ray.get(call)
        except RayTaskError as error:
            raise error.cause if isinstance(error.cause, RaypipeError) else error from None
        except RayActorError as error:
            self._deaths += 1
            if self._deaths > self._job.recipe.resources.max_failures:
                raise IncompleteError(
                    f"{self._job.store}: the worker that measures died {self._deaths} times: "
                    f"{str(error).strip().splitlines()[0]}; checkpoints stay, the same command "
                    "resumes"
                ) from error
            self._start()
        return False
