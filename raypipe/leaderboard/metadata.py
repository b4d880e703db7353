"""A submission's id, its metadata, and how often a team may submit."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.leaderboard.boards import BOARDS, Board
from raypipe.leaderboard.rules import Finding, broken, does_not_apply, holds
from raypipe.regular import check_regular

FIELDS = ("team", "model_description", "paper", "code", "type")
TYPES = ("full ranking", "reranking")
EMBARGO_MONTHS = 9
DAYS = 30
MOST = 2


def metadata_template(board: Board) -> dict[str, str]:
    """The metadata of a submission with every field a board asks for, to be filled in.

    `pack` refuses it while team and model_description are empty. The type is one of two.

    Raises:
        InputError: the board asks for none.
    """
    if not board.metadata:
        asking = ", ".join(task for task, other in BOARDS.items() if other.metadata)
        raise InputError(f"--task {board.task}: it asks for no metadata; expected one of {asking}")
    return {name: "" for name in FIELDS} | {"type": TYPES[0]}


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata file.

    Raises:
        InputError: it is not a JSON object.
    """
    check_regular(path)
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: expected a JSON object with {', '.join(FIELDS)}; {error}"
        ) from None
    if not isinstance(body, dict):
        raise InputError(f"{path}: expected a JSON object with {', '.join(FIELDS)}")
    return body


def check_metadata(
    board: Board, submission: str, metadata: Mapping[str, Any], earlier: Iterable[Path]
) -> list[Finding]:
    """The rules about the id, the metadata, the embargo and two submissions in 30 days.

    Args:
        board: the board with the rules.
        submission: the id, yyyymmdd-name.
        metadata: the content of the metadata file.
        earlier: folders with ID-metadata.json files of earlier submissions.
    """
    rules = ("id", "metadata", "embargo", "two in 30 days")
    if not board.metadata:
        others = [does_not_apply(rule, f"{board.task} has no such rule") for rule in rules[1:]]
        return [_tag(submission), *others]
    day = _day(submission)
    return [
        _id(submission, day),
        _fields(metadata),
        _embargo(metadata, day),
        _frequency(submission, day, metadata, earlier),
    ]


def _day(submission: str) -> date | None:
    found = re.fullmatch(r"([0-9]{4})([0-9]{2})([0-9]{2})-[A-Za-z0-9_.-]+", submission)
    try:
        day = date(*map(int, found.groups())) if found else None
        return day if day is not None and day.year < date.max.year else None
    except ValueError:
        return None


def _tag(submission: str) -> Finding:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", submission):
        detail = f"expected letters, digits, hyphens, dots and underscores; found {submission!r}"
        return broken("id", detail)
    return holds("id", submission)


def _id(submission: str, day: date | None) -> Finding:
    if day is None:
        return broken("id", f"expected yyyymmdd-name, such as 20261120-mine; found {submission!r}")
    return holds("id", submission)


def _fields(metadata: Mapping[str, Any]) -> Finding:
    wrong = [name for name in FIELDS if not isinstance(metadata.get(name), str)]
    empty = [name for name in ("team", "model_description") if metadata.get(name) == ""]
    unknown = sorted(set(metadata) - {*FIELDS, "embargo_until"})
    problems = []
    if wrong:
        problems.append(f"expected texts for {', '.join(wrong)}")
    if empty:
        problems.append(f"{', '.join(empty)} is empty")
    if unknown:
        problems.append(f"unknown keys {', '.join(unknown)}")
    if "type" not in wrong and metadata["type"] not in TYPES:
        problems.append(
            f"type: expected {' or '.join(map(repr, TYPES))}; found {metadata['type']!r}"
        )
    if problems:
        return broken("metadata", "; ".join(problems))
    return holds("metadata", metadata["team"])


def _embargo(metadata: Mapping[str, Any], day: date | None) -> Finding:
    value = metadata.get("embargo_until")
    if value is None:
        return does_not_apply("embargo", "none is requested")
    found = re.fullmatch(r"(\d{4})/(\d{2})/(\d{2})", value) if isinstance(value, str) else None
    try:
        until = date(*map(int, found.groups())) if found else None
    except ValueError:
        until = None
    if until is None:
        return broken("embargo", f"embargo_until: expected yyyy/mm/dd; found {value!r}")
    if day is None:
        return broken("embargo", "the id has no day to count from")
    last = _last_day(day, EMBARGO_MONTHS)
    if not day <= until <= last:
        return broken("embargo", f"embargo_until: expected {day} to {last}; found {until}")
    return holds("embargo", f"until {until}")


def _last_day(day: date, months: int) -> date:
    """The last day of a period of months that begins with this day.

    It is the day before the same day that many months later, as the board counts: nine months from
    2020/11/01 end with 2021/07/31. Where a month lacks that day, they end with the month.
    """
    year, month = divmod(day.month - 1 + months, 12)
    first = date(day.year + year, month + 1, 1)
    length = ((first + timedelta(days=31)).replace(day=1) - first).days
    return first + timedelta(days=min(day.day - 2, length - 1))


def _frequency(
    submission: str, day: date | None, metadata: Mapping[str, Any], earlier: Iterable[Path]
) -> Finding:
    rule = "two in 30 days"
    if day is None:
        return broken(rule, "the id has no day to count from")
    near: set[tuple[date, str]] = set()
    for folder in earlier:
        for path in sorted(folder.glob("*-metadata.json")):
            name = path.name.removesuffix("-metadata.json")
            other = _day(name)
            if name == submission or other is None or abs(other - day) >= timedelta(days=DAYS):
                continue
            if read_metadata(path).get("team") == metadata.get("team"):
                near.add((other, name))
    for first, _ in sorted({*near, (day, submission)}):
        window = [n for d, n in sorted(near) if first <= d < first + timedelta(days=DAYS)]
        if first <= day < first + timedelta(days=DAYS) and len(window) >= MOST:
            detail = f"the team has {', '.join(window)} in the {DAYS} days from {first}"
            return broken(rule, detail)
    return holds(rule, f"{len(near)} others of the team are near" if near else "no other is near")
