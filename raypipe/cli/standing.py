"""What `raypipe status` prints."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raypipe.driver.upkeep.status import Status


def lines_of(found: "Status") -> Iterator[str]:
    """How the invocation ended or how far it is, then a line for each store."""
    yield f"{found.state}: exit {found.exit_code}, {found.reason}"
    times = (("began", found.began), ("ended", found.ended))
    known = ", ".join(f"{word} {when}" for word, when in times if when is not None)
    if known:
        yield f"  {known}"
    for store, progress in found.stores.items():
        yield f"  {store}: {_told(progress)}"


def _told(progress: Mapping[str, Any]) -> str:
    """`at work 3 of 8 shards, 1,200 of 8,000 rows, 0:00:23 left`."""
    told = str(progress["state"])
    if "done" in progress:
        told += f" {progress['done']} of {progress['shards']} shards"
        told += f", {progress['rows_done']:,} of {progress['rows']:,} rows"
    if told.startswith("at work") and "seconds_left" in progress:
        told += f", {progress['rows_per_second']:,.1f} rows/s"
        told += f", {timedelta(seconds=progress['seconds_left'])} left"
    told += ", reused" if progress.get("reused") else ""
    if progress.get("earlier"):
        begun = progress["state"] in ("waiting", "not begun")
        told += ", one of an earlier invocation is there" if begun else ", of an earlier invocation"
    return told
