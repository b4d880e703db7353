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
    folder, stores, files = workspace.folder, workspace.stores, forecast.run_files
    in_stores = stores.free_bytes()
    runs = (_growth(folder, files), f"run files in {folder / 'runs'}")
    disks = [([runs], shutil.disk_usage(folder).free)]
    if in_stores is not None:
        older = workspace.refs()
        new = sum(line.bytes for line in forecast.lines if line.store not in older)
        needed = (new, f"stores in {stores.uri}")
        if _disk(Path(stores.uri)) == _disk(folder):
            disks[0][0].insert(0, needed)
        else:
            disks.append(([needed], in_stores))
    problems = [
        f"expected {' and '.join(f'{_size(size)} free for the {what}' for size, what in needs)}, "
        f"found {_size(free)}"
        for needs, free in disks
        if sum(size for size, _ in needs) > free
    ]
    if problems:
        raise StorageError(
            f"{'; '.join(problems)}. No stage has begun: free space there, or name another --out, "
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
    unit, word = next(((u, w) for u, w in _UNITS if num_bytes >= u), (1, "bytes"))
    exact = f"{num_bytes:,.0f} bytes"
    return exact if unit == 1 else f"{num_bytes / unit:.1f} {word} ({exact})"


_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
