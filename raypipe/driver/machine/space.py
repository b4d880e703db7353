"""A check before work starts that the planned shards fit the free space."""

from collections.abc import Sequence

from raypipe.errors import StorageError
from raypipe.stages.stage import Stage
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.storage import Storage


def check_space(storage: Storage, stage: Stage, ledger: Ledger) -> None:
    """Returns nothing if the pending shards fit the free space of the stores.

    Raises:
        StorageError: they do not fit; the message gives the needed and the free bytes.
    """
    free = storage.free_bytes()
    if free is None:
        return
    needed = estimated_bytes(stage, ledger.shards, ledger.pending())
    if needed > free:
        raise StorageError(
            f"{ledger.store}: {storage.uri}: expected {size_of(needed)} free for the "
            f"missing shards, found {size_of(free)}; free space there, or name another place with "
            "the recipe key `stores`. Committed work is kept"
        )


def estimated_bytes(stage: Stage, planned: Sequence[Shard], pending: Sequence[Shard]) -> int:
    """The estimated size in bytes of a stage's pending shards; 0 if they are small."""
    num_rows, num_planned = (sum(shard.num_rows for shard in s) for s in (pending, planned))
    return stage.estimated_bytes(num_rows, num_planned) if pending else 0


def size_of(num_bytes: float) -> str:
    """`1.5 GB (1,500,000,000 bytes)`."""
    return f"{rounded(num_bytes)} ({num_bytes:,.0f} bytes)"


def rounded(num_bytes: float) -> str:
    """`1.5 GB`, or in the largest unit of which there is one."""
    unit, word = next((each for each in _UNITS if num_bytes >= each[0]), _UNITS[-1])
    return f"{num_bytes / unit:.1f} {word}"


_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
