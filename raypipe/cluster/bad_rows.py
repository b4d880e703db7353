"""Finds the row of a shard that kills its workers, by halving the batch that they recorded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.store_records import work_label


@dataclass
class Case:
    """A shard whose worker died, or with rows that have no finite value.

    After the first death, the next try is careful; the second shows the batch that was being
    computed; then halves of that batch are probed. A row is bad if its worker dies while it is
    computed alone (twice, for a batch of four rows or more). For B rows this takes at most 3 +
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
