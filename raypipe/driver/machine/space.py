"""Checks that what is written fits the free space: before the first stage, and before each."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from raypipe.driver.forecast.forecast import Forecast
from raypipe.driver.workspace import Workspace
from raypipe.errors import StorageError
from raypipe.stages.stage import Stage
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.storage import Storage


def check_forecast(forecast: Forecast, workspace: Workspace) -> None:
    """Returns nothing if the stores and the run files of a forecast fit the free space.

    A store that replaces an older one may copy rows whose bytes are there: it is left to
    `check_space`. A run file takes what it is larger than the one that it replaces.

    Raises:
        StorageError: they do not fit; the message gives each place, the needed and the free bytes.
    """
    folder, stores = workspace.folder, workspace.stores
    written = _growth(folder, forecast.run_files)
    disks = [({f"run files in {folder / 'runs'}": written}, shutil.disk_usage(folder).free)]
    if (in_stores := stores.free_bytes()) is not None:
        older = workspace.refs()
        new = sum(line.bytes for line in forecast.lines if line.store not in older)
        kept = {f"stores in {stores.uri}": new}
        if _disk(Path(stores.uri)) == _disk(folder):
            disks = [(kept | disks[0][0], disks[0][1])]
        else:
            disks.append((kept, in_stores))
    short = [
        f"expected {_size(sum(needed.values()))} free, found {_size(free)}: "
        + " and ".join(f"{_short(size)} for the {what}" for what, size in needed.items())
        for needed, free in disks
        if sum(needed.values()) > free
    ]
    if short:
        raise StorageError(
            f"{'; '.join(short)}. No stage has begun: free space there, or name another --out, "
            "or another place with the recipe key `stores`"
        )


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
            f"{ledger.store}: {storage.uri}: expected {_size(needed)} free for the "
            f"missing shards, found {_size(free)}; free space there, or name another place with "
            "the recipe key `stores`. Committed work is kept"
        )


def estimated_bytes(stage: Stage, planned: Sequence[Shard], pending: Sequence[Shard]) -> int:
    """The estimated size in bytes of a stage's pending shards; 0 if they are small."""
    num_rows, num_planned = (sum(shard.num_rows for shard in s) for s in (pending, planned))
    return stage.estimated_bytes(num_rows, num_planned) if pending else 0


def _growth(folder: Path, files: Mapping[str, float]) -> float:
    """The bytes that files take more than those of the same names."""
    there = {name: (folder / name).stat().st_size for name in files if (folder / name).exists()}
    return sum(max(0.0, size - there.get(name, 0)) for name, size in files.items())


def _disk(place: Path) -> int:
    """The device of a folder that may not exist yet."""
    return next(part for part in (place, *place.parents) if part.exists()).stat().st_dev


def _size(num_bytes: float) -> str:
    """`1.5 GB (1,500,000,000 bytes)`."""
    return f"{_short(num_bytes)} ({num_bytes:,.0f} bytes)"


def _short(num_bytes: float) -> str:
    """`1.5 GB`, or in the largest unit of which there is one."""
    unit, word = next((each for each in _UNITS if num_bytes >= each[0]), _UNITS[-1])
    return f"{num_bytes / unit:.1f} {word}"


_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
