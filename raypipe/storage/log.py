"""Logs that no hash covers: JSON objects, one a line, of which a crash may have torn some."""

import json
from typing import Any


def events(data: bytes) -> list[dict[str, Any]]:
    """The objects of the whole lines, in order; torn lines are passed over."""
    return [event for line in data.splitlines() if (event := _parsed(line)) is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
