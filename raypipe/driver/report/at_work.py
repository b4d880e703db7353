"""How far a store is, read from its files by another process than its driver's."""

from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from raypipe.shapes import Shape, fits
from raypipe.storage.ledger import Ledger, events, read_manifest, read_spec
from raypipe.storage.storage import Storage

_LAST_LINES = 20
"""Of the log; where shards are computed, the last event of one that was done is among them."""


def progress_of(stores: Storage, store: str, fingerprint: str) -> dict[str, Any]:
    """The `state` of a store: complete, not planned, or incomplete.

    Of an incomplete one also `shards`, `done` of them, `rows` and `rows_done`; and
    `rows_per_second` since the first worker was ready, and `seconds_left` at that rate, once an
    invocation has committed a shard.

    Raises:
        CorruptError: a record is damaged.
    """
    if read_manifest(stores, store, fingerprint) is not None:
        return {"state": "complete"}
    if not stores.exists(f"{store}/{fingerprint}/plan.json"):
        return {"state": "not planned"}
    ledger = Ledger(stores, store, read_spec(stores, store, fingerprint))
    pending = ledger.pending()
    rows = sum(shard.num_rows for shard in ledger.shards)
    left = sum(shard.num_rows for shard in pending)
    told: dict[str, Any] = {
        "state": "incomplete",
        "shards": len(ledger.shards),
        "done": len(ledger.shards) - len(pending),
        "rows": rows,
        "rows_done": rows - left,
    }
    rate = _rate(stores, f"{store}/{fingerprint}/attempts.jsonl")
    if rate is not None:
        told |= {"rows_per_second": round(rate, 3), "seconds_left": round(left / rate)}
    return told


_Number = Annotated[float, Field(gt=0, lt=1e18, allow_inf_nan=False)]


class _DoneShape(Shape):
    """What the log says of a shard that was committed."""

    so_far: Annotated[list[_Number], Field(min_length=2, max_length=2)]
    """Rows and working seconds of the invocation up to then."""


def _rate(stores: Storage, log: str) -> float | None:
    """Rows in a second, by the last invocation that committed a shard; None if there is none."""
    for line in islice(stores.newest(log), _LAST_LINES):
        for event in events(line):
            if event.get("event") == "done" and fits(event, _DoneShape):
                rows, seconds = event["so_far"]
                return float(rows / seconds)
    return None
