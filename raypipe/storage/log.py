"""Logs, which are part of no hash: one JSON object per line; a crash may truncate a line."""

import json
from typing import Any


def events(data: bytes) -> list[dict[str, Any]]:
    """The objects of the complete lines, in order; truncated lines are skipped."""
    return [event for line in data.splitlines() if (event := _parsed(line)) is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
