"""The limits of an invocation over one store, and what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raypipe.storage.records import Shard

if TYPE_CHECKING:
    from raypipe.cluster.backend import Committed


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the loop."""

    num_actors: int = 1
    max_attempts: int = 3
    """Failures of one shard after which the invocation ends; preemptions do not count."""
    silent_seconds: float = 120.0
    """Seconds without a heartbeat after which a worker counts as dead."""
    silent_seconds_opening: float = 600.0
    """The same before its first batch, while weights are loaded."""
    spare_seconds: float = 60.0
    """How long a worker without a shard waits for one that is late; then it is let go."""
    least_late_seconds: float = 5.0
    """The least time that a shard still needs, for a second worker to try it too."""
    quiet_seconds: float = 60.0
    """Without a committed shard, after which the progress is told again."""
    poll_seconds: float = 1.0


@dataclass(slots=True)
class Report:
    """The work of one invocation on one store."""

    num_planned: int = 0
    num_reused: int = 0
    num_done: int = 0
    num_computing: int = 0
    """Tries at work when this was told last."""
    num_lost: int = 0
    num_preempted: int = 0
    num_out_of_memory: int = 0
    """Workers that were ended because their node was short of memory."""
    num_second_tries: int = 0
    """Shards that a second worker tried because the first was late."""
    num_copied: int = 0
    """Rows that were taken from older stores."""
    num_rows: int = 0
    """Rows of the shards that were committed."""
    num_bytes: int = 0
    """Bytes of the payloads that were committed."""
    num_tokens: int = 0
    """Tokens that a model read."""
    cpu_seconds: float = 0.0
    """CPU time of the workers' processes over the shards that were committed, loading excluded."""
    seconds: float = 0.0
    working_seconds: float = 0.0
    """Time from the first ready worker to the last commit, so without loading."""
    num_rows_planned: int = 0
    num_rows_reused: int = 0
    """Rows of the shards that were committed before."""

    def add(self, shard: Shard, done: Committed) -> None:
        """Count a shard that was committed."""
        self.num_done += 1
        self.num_copied += done.num_copied
        self.num_rows += shard.num_rows
        self.num_bytes += done.record.num_bytes
        self.num_tokens += done.num_tokens
        self.cpu_seconds += done.cpu_seconds


def report_of(shards: Sequence[Shard], pending: Sequence[Shard]) -> Report:
    """The report on a store of such shards, some pending, before this invocation adds to it."""
    planned = sum(shard.num_rows for shard in shards)
    return Report(
        num_planned=len(shards),
        num_reused=len(shards) - len(pending),
        num_rows_planned=planned,
        num_rows_reused=planned - sum(shard.num_rows for shard in pending),
    )
