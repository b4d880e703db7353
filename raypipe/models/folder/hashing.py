"""Hashes of files."""

import hashlib
from pathlib import Path


def sha256_of(file: Path) -> str:
    """The file's SHA-256, hexadecimal."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
