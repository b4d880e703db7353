"""The package itself: its version, its place and its content."""

import hashlib
from functools import cache
from pathlib import Path

VERSION = "0.2.0"
FOLDER = Path(__file__).parent


@cache
def package_sha256() -> str:
    """SHA-256 over names and bytes of raypipe's source files, in order; read once per process."""
    total = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*.py")):
        total.update(str(path.relative_to(FOLDER)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()
