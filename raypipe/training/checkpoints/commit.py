"""The end of a training: commits the chosen weights under the training's fingerprint."""

from raypipe.models.machine.device import numerics_class
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.training.checkpoints.export import write_payload
from raypipe.training.checkpoints.history import history_of, unmeasured
from raypipe.training.checkpoints.store import Checkpoints
from raypipe.training.job import Job


def commit(job: Job, *, device: str) -> None:
    """Commit the one shard of the training's store: its trained weights.

    They are those of the best checkpoint by the measure (the first of equals), or of the last one
    if nothing is measured.

    Raises:
        InputError: a measurement that could affect the choice is missing.
    """
    checkpoints = Checkpoints(job.storage, job.folder)
    newest = checkpoints.newest()
    assert newest is not None
    history = history_of(job)
    missing = history.missing(newest.step)
    if missing:
        raise unmeasured(job, missing)
    counted = history.counted(newest.step)
    best = history.best(counted)
    chosen = newest if best is None else checkpoints.at(best["step"])
    ledger = Ledger(job.storage, job.store, job.spec)
    path = ledger.storage.scratch() / "weights.safetensors"
    write_payload(job, chosen, path)
    facts = {
        "rows": 1,
        "step": chosen.step,
        "history": counted,
        "numerics": f"{numerics_class(device)}, {job.recipe.resources.precision}",
    }
    ledger.commit(Shard(0, 0, 1), path, facts)
