"""Which row of a shard kills its workers: found by halving, from what the dead left written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.store_records import work_label


@dataclass
class Case:
    """A shard whose worker died, or of which rows have no value.

    The first death makes the next try careful; the second tells the batch that was computed;
    then halves of it are probed. A row is bad when its worker dies while it is computed alone, of
    a batch of four rows or more twice: after at most 3 + log2(B) deaths, rounded up, of B rows.
    """

    bad: dict[int, str] = field(default_factory=dict)
    """Rows in quarantine and why."""
    careful: bool = False
    suspects: tuple[int, ...] = ()
    """Rows of which one kills; empty while nothing is known."""
    probed: tuple[int, ...] = ()
    """Those of them that are being computed."""
    width: int = 0
    """Rows of the batch that is being halved."""
    alone: int = 0
    """Deaths over a single row."""

    def probe(self) -> tuple[int, ...]:
        """The rows to compute next, one half of the suspects; empty for the whole shard."""
        self.probed = self.suspects[: (len(self.suspects) + 1) // 2]
        return self.probed

    def skip(self, shard: Shard) -> tuple[int, ...]:
        """The rows to leave out of the next try."""
        probed = set(self.probe())
        if not probed:
            return tuple(sorted(self.bad))
        return tuple(row for row in range(shard.start, shard.stop) if row not in probed)

    def died(self, batch: tuple[int, ...], reason: str) -> int | None:
        """A worker died over this batch; the row that is bad, once there is only one to suspect."""
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
        """Rows found to have no value: bad, and suspected of nothing more."""
        self.bad.update(rows)
        self.suspects = tuple(row for row in self.suspects if row not in rows)

    def survived(self) -> bool:
        """A probe survived; False where no suspect is left, and the deaths remain unexplained."""
        self.suspects = tuple(row for row in self.suspects if row not in self.probed)
        return bool(self.suspects)


def evidence_name(ledger: Ledger, shard: Shard) -> str:
    """Where a careful worker writes the rows of its batch."""
    return f"nonce/{work_label(ledger.store, ledger.fingerprint)}/{shard.index}.rows"


def read_evidence(ledger: Ledger, shard: Shard) -> tuple[int, ...]:
    """The batch that a dead worker was computing; read once, then gone."""
    name = evidence_name(ledger, shard)
    try:
        rows = tuple(json.loads(ledger.storage.read(name)))
    except FileNotFoundError:
        return ()
    ledger.storage.delete(name)
    return rows
