"""An index folder as one file and back."""

import tarfile
from pathlib import Path


def pack_folder(folder: Path, packed: Path) -> None:
    """The folder's files as one uncompressed tar, the same bytes for the same files."""
    with tarfile.open(packed, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(folder.iterdir()):
            entry = tarfile.TarInfo(path.name)
            entry.size, entry.mode = path.stat().st_size, 0o644
            with path.open("rb") as stream:
                archive.addfile(entry, stream)


def unpack_folder(packed: Path, folder: Path) -> None:
    """The files of `pack_folder`, in a folder that is made; refuses names that leave it."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
