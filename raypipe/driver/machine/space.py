"""A check before work starts that the planned shards fit the free space."""

from collections.abc import Sequence

from raypipe.errors import InputError
from raypipe.stages.stage import Stage
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.storage import Storage


def check_space(storage: Storage, stage: Stage, ledger: Ledger) -> None:
    """Returns nothing if the pending shards fit the free space of the stores.

    Raises:
        InputError: they do not fit; the message gives the needed and the free bytes.
    """
    free = storage.free_bytes()
    if free is None:
        return
    needed = estimated_bytes(stage, ledger.shards, ledger.pending())
    if needed > free:
        raise InputError(
            f"{ledger.store}: {storage.uri}: expected {_size(needed)} free for the "
            f"missing shards, found {_size(free)}; free space there, or name another place with "
            "the recipe key `stores`. Committed work is kept"
        )


def estimated_bytes(stage: Stage, planned: Sequence[Shard], pending: Sequence[Shard]) -> int:
    """The estimated size in bytes of a stage's pending shards; 0 if they are small."""
    num_rows, num_planned = (sum(shard.num_rows for shard in s) for s in (pending, planned))
    return stage.estimated_bytes(num_rows, num_planned) if pending else 0


def _size(num_bytes: int) -> str:
    """`1.5 GB (1,500,000,000 bytes)`."""
    return f"{num_bytes / 1e9:.1f} GB ({num_bytes:,} bytes)"
