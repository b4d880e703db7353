"""Packs an index folder into one file, and unpacks it."""

import tarfile
from pathlib import Path


def pack_folder(folder: Path, packed: Path) -> None:
    """Write the folder's files as one uncompressed tar; the same files give the same bytes."""
    with tarfile.open(packed, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.iterdir()):
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as stream:
                archive.addfile(entry, stream)


def unpack_folder(packed: Path, folder: Path) -> None:
    """Write the files of `pack_folder` into a new folder; refuses names outside it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
