"""Consequences of a shard's failure: another try, a search for its bad rows, or the end.

The row of a shard that kills its workers is found by halving the batch that they recorded.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from raypipe.cluster.backend import Mode, Task
from raypipe.errors import IncompleteError, RaypipeError, RowsFailed, in_full
from raypipe.stages.stage import Rows
from raypipe.storage.ledger import Ledger, work_label
from raypipe.storage.records import Shard

WANT_OF_MEMORY = (
    "; the operating system kills for want of memory without a word to others (`dmesg` shows it): "
    "run the same command again with more memory, fewer resources.actors or a smaller "
    "resources.budget_tokens"
)


@dataclass
class Case:
    """A shard whose worker died, or with rows that have no finite value.

    After the first death, the next try is careful; the second shows the batch that was being
    computed; then halves of that batch are probed. A row is bad if its worker dies while it is
    computed alone (twice, for a batch of four rows or more). A batch of B rows takes at most 3 +
    log2(B) deaths, rounded up.
    """

    bad: dict[int, str] = field(default_factory=dict)
    """The rows in quarantine, with the reason."""
    careful: bool = False
    suspects: tuple[int, ...] = ()
    """The suspects: rows of which one kills the worker; empty while nothing is known."""
    probed: tuple[int, ...] = ()
    """The suspects that are being computed."""
    width: int = 0
    """Number of rows of the batch that is being halved."""
    alone: int = 0
    """Number of deaths over a single row."""

    def probe(self) -> tuple[int, ...]:
        """The rows to compute next, half of the suspects; empty means the whole shard."""
        self.probed = self.suspects[: (len(self.suspects) + 1) // 2]
        return self.probed

    def skip(self, shard: Shard) -> tuple[int, ...]:
        """The rows to skip in the next try."""
        probed = set(self.probe())
        if not probed:
            return tuple(sorted(self.bad))
        return tuple(row for row in range(shard.start, shard.stop) if row not in probed)

    def died(self, batch: tuple[int, ...], reason: str) -> int | None:
        """Note a worker's death over this batch; returns the bad row once only one is suspected."""
        suspects = tuple(row for row in batch if row in self.probed) if self.probed else batch
        if not self.probed:
            self.width, self.alone = len(batch), 0
        self.suspects = suspects or self.probed
        if not self.careful:
            self.careful, self.suspects = True, ()
            return None
        if len(self.suspects) != 1 or not self.probed:
            return None
        self.alone += 1
        if self.alone < (2 if self.width >= 4 else 1):
            return None
        (row,) = self.suspects
        self.bad[row] = f"its worker died: {reason}"
        self.suspects = ()
        return row

    def exclude(self, rows: Mapping[int, str]) -> None:
        """Note rows without a finite value: they are bad, and no longer suspects."""
        self.bad.update(rows)
        self.suspects = tuple(row for row in self.suspects if row not in rows)

    def survived(self) -> bool:
        """Note a surviving probe; False if no suspect is left and the deaths are unexplained."""
        self.suspects = tuple(row for row in self.suspects if row not in self.probed)
        return bool(self.suspects)


def evidence_name(ledger: Ledger, shard: Shard) -> str:
    """Name of the file to which a careful worker writes the rows of its batch."""
    return f"nonce/{work_label(ledger.store, ledger.fingerprint)}/{shard.index}.rows"


def read_evidence(ledger: Ledger, shard: Shard) -> tuple[int, ...]:
    """The batch that a dead worker was computing; it can be read once, and a damaged one never."""
    name = evidence_name(ledger, shard)
    try:
        rows = json.loads(ledger.storage.read(name))
    except FileNotFoundError:
        return ()
    except (ValueError, RecursionError):
        rows = None
    ledger.storage.delete(name)
    whole = isinstance(rows, list) and all(type(row) is int for row in rows)
    return tuple(rows) if whole else ()


class Failures:
    """The failures of one invocation over one store; a shard is tried again unless one raises."""

    def __init__(self, task: Task, max_attempts: int) -> None:
        """None yet."""
        self._task, self._max_attempts = task, max_attempts
        self._attempts: dict[int, int] = {}
        self._cases: dict[int, Case] = {}
        self._openings = 0
        """Workers in a row that ended before their first shard."""

    def opened(self) -> None:
        """Note that a worker is ready."""
        self._openings = 0

    def done(self, shard: Shard) -> None:
        """Note that a shard is committed; what its careful worker left written goes."""
        if shard.index in self._cases:
            read_evidence(self._task.ledger, shard)

    def next_try(self, shard: Shard) -> tuple[Rows, Mode]:
        """The rows that the next try leaves out, and how it is computed."""
        case = self._cases.get(shard.index)
        if case is None:
            return (), Mode.PLAIN
        skip = case.skip(shard)
        mode = Mode.CAREFUL if case.careful else Mode.PLAIN
        return skip, Mode.PROBE if case.probed else mode

    def failed(self, shard: Shard | None, error: Exception, remedy: str = "") -> None:
        """Count an error of a shard, or of a worker that was opening, or leave its rows out.

        The remedy is for the message of too many attempts.

        Raises:
            RaypipeError: bad input, damage, or too many attempts; the shard is named.
        """
        store = self._task.ledger.store
        if isinstance(error, RaypipeError):
            error.add_note(f"in {store}: {shard or 'a worker that was opening'}")
            raise error
        if shard is None:
            self._openings += 1
            if self._openings >= self._max_attempts:
                raise IncompleteError(
                    f"{store}: {self._openings} workers in a row ended before their first shard; "
                    f"the last one: {in_full(error)}{remedy}"
                ) from error
            return
        if isinstance(error, RowsFailed) and self._has_new_rows(shard, error):
            self._quarantine(shard, dict.fromkeys(error.rows, error.reason))
            return
        attempts = self._attempts[shard.index] = self._attempts.get(shard.index, 0) + 1
        self._task.note("failed", shard, reason=in_full(error), attempt=attempts)
        if attempts >= self._max_attempts:
            raise IncompleteError(
                f"{store}: {shard} failed {attempts} times; the last time: {in_full(error)}{remedy}"
            ) from error

    def died(self, shard: Shard | None, reason: str) -> None:
        """Search for a bad row if a worker's death helps with that; otherwise count the death.

        Raises:
            IncompleteError: too many attempts; the shard is named.
        """
        if shard is None or not self._investigate(shard, reason):
            self.failed(shard, RuntimeError(reason), WANT_OF_MEMORY)

    def survived(self, shard: Shard) -> None:
        """Note a probe without a death; counts as a failure if no suspect is left.

        Raises:
            IncompleteError: too many attempts; the shard is named.
        """
        read_evidence(self._task.ledger, shard)
        if not self._cases[shard.index].survived():
            self.failed(shard, RuntimeError("its worker died over rows that are harmless"))

    def _investigate(self, shard: Shard, reason: str) -> bool:
        """Whether a worker's death helps to find a bad row: its batch is known, or will be."""
        if not self._task.stage.skips_rows:
            return False
        case = self._cases.setdefault(shard.index, Case())
        first, batch = not case.careful, read_evidence(self._task.ledger, shard)
        if not first and not batch:
            return False  # it died before its first batch, which shows nothing about any row
        bad = case.died(batch, reason)
        self._task.note("died", shard, reason=reason, suspects=len(case.suspects))
        if bad is not None:
            self._quarantine(shard, {bad: case.bad[bad]})
        # The first death shows nothing about the rows and counts like any other failure.
        return not first and (bad is not None or bool(case.suspects))

    def _has_new_rows(self, shard: Shard, error: RowsFailed) -> bool:
        known = self._cases[shard.index].bad if shard.index in self._cases else {}
        return self._task.stage.skips_rows and bool(set(error.rows) - known.keys())

    def _quarantine(self, shard: Shard, rows: Mapping[int, str]) -> None:
        case = self._cases.setdefault(shard.index, Case())
        case.exclude(rows)
        for row, reason in rows.items():
            self._task.note("quarantined", shard, row=row, reason=reason)
