"""What follows from a shard's failure: another try, a search for its bad rows, or the end."""

from collections.abc import Mapping

from raypipe.cluster.backend import Mode, Rows, Task
from raypipe.cluster.bad_rows import Case, read_evidence
from raypipe.errors import IncompleteError, RaypipeError, RowsFailed, in_full
from raypipe.storage.records import Shard

WANT_OF_MEMORY = (
    "; the operating system kills for want of memory without a word to others (`dmesg` shows it): "
    "run the same command again with more memory, fewer resources.actors or a smaller "
    "resources.budget_tokens"
)


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
