"""The wording of messages: what was found, and what was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_SHOWN = 60


def shown(value: object) -> str:
    """A YAML value in plain words: "text 'ten'", "a list", "nothing"."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"text {_cut(repr(value))}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int | float):
        return _number(value)
    return f"{_cut(str(value))}, which YAML reads as a {type(value).__name__}: quote it"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean X?" with the nearest known word, or ";" if none is near; text follows."""
    nearest = get_close_matches(word, list(known), n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ";"


def listed(words: Iterable[str]) -> str:
    """Words with commas, or "none"."""
    return ", ".join(words) or "none"


def _number(value: int | float) -> str:
    try:
        return _cut(str(value))
    except ValueError:  # Python prints no integer of more than 4,300 digits
        return "a number of thousands of digits"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
