"""The package itself: its version, and where it lies."""

from pathlib import Path

VERSION = "0.2.0"
FOLDER = Path(__file__).parent
