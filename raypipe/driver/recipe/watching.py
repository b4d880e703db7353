"""What an execution asks of its surroundings, and what it reports to them."""

from dataclasses import dataclass
from typing import Protocol

from raypipe.cluster.backend import Backend
from raypipe.cluster.report import Limits, Report
from raypipe.names import StoreName
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

    def expects(self, num_stages: int) -> None:
        """So many stages are foreseen, those that are reused among them."""

    def began(self, name: StoreName, report: Report) -> None:
        """Shards of a stage are being computed."""

    def advanced(self, name: StoreName, report: Report) -> None:
        """A shard was committed."""

    def ended(self, name: StoreName, result: "StageResult") -> None:
        """A stage is complete."""


class Silent:
    """A watcher that tells nobody."""

    def expects(self, num_stages: int) -> None:
        """See Watcher."""

    def began(self, name: StoreName, report: Report) -> None:
        """See Watcher."""

    def advanced(self, name: StoreName, report: Report) -> None:
        """See Watcher."""

    def ended(self, name: StoreName, result: "StageResult") -> None:
        """See Watcher."""


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
    num_searched: int = 0
    """Queries that the invocation which completed the store searched exactly, once for each span of
    embeddings; 0 of other stages, and where it is not known."""
    num_repeated: int = 0
    """Those of them that needed the second pass."""
    cpu_seconds: float = 0.0
    """CPU time of this invocation's workers over the store's shards, loading excluded."""
