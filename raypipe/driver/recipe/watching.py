"""What an execution asks of its surroundings, and what it reports to them."""

from dataclasses import dataclass
from typing import Protocol

from raypipe.cluster.backend import Backend
from raypipe.cluster.loop import Limits, Report
from raypipe.stages.stage import Needs


class Backends(Protocol):
    """A source of backends; one is started when the first shard needs it."""

    def warm(self) -> None:
        """Start the backend in the background."""

    def get(self) -> Backend:
        """The backend, started."""

    def limits(self, needs: Needs, shards: int) -> Limits:
        """The limits for such a stage, with its number of actors."""


class Watcher(Protocol):
    """Is notified of each stage's progress."""

    def began(self, store: str, report: Report) -> None:
        """Shards of a stage are being computed."""

    def advanced(self, store: str, report: Report) -> None:
        """A shard was committed."""

    def ended(self, store: str, result: "StageResult") -> None:
        """A stage is complete."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage contributed to this invocation."""

    store: str
    fingerprint: str
    reused: bool
    num_rows: int
    num_shards: int
    num_shards_reused: int
    num_quarantined: int
    coverage: float
    num_copied: int
    """Rows whose values this invocation took from older stores."""
    seconds: float
    working_seconds: float | None
    """Computing time of the store without loading; None if several invocations computed it."""
    num_copied_when_made: int = 0
    """Rows whose values the invocation that completed the store took from older stores."""
    num_rows_computed: int = 0
    """Rows of the shards that this invocation committed."""
    num_bytes: int = 0
    """Of the payloads that this invocation committed."""
    num_tokens: int = 0
    """Tokens that a model read in this invocation."""
    cpu_seconds: float = 0.0
    """CPU time of this invocation's workers over the store's shards, loading excluded."""
