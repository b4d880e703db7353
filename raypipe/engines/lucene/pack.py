"""Packs an index folder into one file, and unpacks it."""

import shutil
import tarfile
from pathlib import Path

BLOCK = 1 << 20  # bytes


def pack_folder(folder: Path, packed: Path) -> None:
    """Write the folder's files as one uncompressed tar; the same files give the same bytes."""
    with tarfile.open(packed, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.iterdir()):
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as stream:
                archive.addfile(entry, stream)


def unpack_folder(packed: Path, folder: Path) -> None:
    """Write the files of `pack_folder` into a new folder; refuses names outside it (ValueError)."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(packed) as archive:
        for entry in archive:  # not `filter="data"`, which Python 3.11.4 was the first to have
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is None or Path(entry.name).name != entry.name:
                raise ValueError(f"{packed}: expected plain files, found {entry.name!r}")
            with content, (folder / entry.name).open("wb") as file:
                shutil.copyfileobj(content, file, BLOCK)
