"""The end of a training: the chosen weights committed under the training's fingerprint."""

from raypipe.models.device import numerics_class
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.training.checkpoints import Checkpoint
from raypipe.training.export import write_payload
from raypipe.training.job import Job


def commit(job: Job, checkpoint: Checkpoint, *, device: str) -> None:
    """Commit the one shard of the training's store: its trained weights."""
    ledger = Ledger(job.storage, job.store, job.spec)
    path = ledger.storage.scratch() / "weights.safetensors"
    write_payload(job, checkpoint, path)
    facts = {
        "rows": 1,
        "step": checkpoint.step,
        "history": checkpoint.facts["history"],
        "numerics": f"{numerics_class(device)}, {job.recipe.resources.precision}",
    }
    ledger.commit(Shard(0, 0, 1), path, facts)
