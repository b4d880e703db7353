"""Measures a checkpoint on the dev sets, in a trainer or in the task beside the trainers."""

from raypipe.storage.records import Json
from raypipe.training.checkpoints.dev_sets import dev_of
from raypipe.training.checkpoints.history import Measurement, measured_sets
from raypipe.training.checkpoints.validate import measured
from raypipe.training.job import Job
from raypipe.training.model.trainee import Trainee
from raypipe.training.model.worker import layouts_for
from raypipe.training.pretraining.measuring import measured_losses
from raypipe.training.pretraining.updates import maker_of
from raypipe.training.steps.comm import Comm


class Measuring:
    """Measures on the dev sets, which are opened once."""

    def __init__(self, job: Job) -> None:
        """Raises InputError if a dev set cannot be measured on."""
        self._job, self._dev, self._layouts = job, dev_of(job), layouts_for(job)
        self._maker = maker_of(job) if job.is_pretraining else None
        self._warn = True  # about queries without candidates, only once

    def values(self, trainee: Trainee, comm: Comm) -> list[float]:
        """The measure of the current weights on each dev set, in every worker.

        Of a pre-training, the masked-word loss on the held-out inputs of each of its sets.
        """
        validate = self._job.recipe.validate_
        assert validate is not None
        if self._maker is not None:
            return measured_losses(trainee, self._maker, comm)
        values = measured(
            trainee,
            self._job.start,
            self._dev,
            validate.measure,
            comm,
            self._layouts,
            warn=self._warn and comm.rank == 0,
        )
        self._warn = False
        return values


def progress_of(job: Job, measurement: Measurement) -> dict[str, Json]:
    """A measurement as a line of the training's progress."""
    assert job.recipe.validate_ is not None
    of = dict(zip(measured_sets(job.recipe), measurement["values"], strict=True))
    facts = {"step": measurement["step"], "measure": job.recipe.validate_.measure}
    return {**facts, "mean": measurement["mean"], "of": of}
