"""The package itself: its version, its place and its content."""

import hashlib
from functools import cache
from pathlib import Path

VERSION = "0.2.0"
FOLDER = Path(__file__).parent


@cache
def package_sha256(*parts: str) -> str:
    """SHA-256 over names and bytes of raypipe's source files, in order; read once per process.

    With `parts`, of these folders and files of raypipe alone.
    """
    total = hashlib.sha256()
    places = [FOLDER / part for part in parts] or [FOLDER]
    files = {
        file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])
    }
    for path in sorted(files):
        total.update(str(path.relative_to(FOLDER)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()
