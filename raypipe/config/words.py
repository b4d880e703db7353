"""The wording of messages: what was found, and what was probably meant."""

from collections.abc import Iterable
from difflib import get_close_matches

from raypipe.errors import shown


def in_words(value: object) -> str:
    """A YAML value in plain words: "text 'ten'", "a list", "nothing"."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"text {shown(value)}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int | float):
        return shown(value)
    return f"{value}, which YAML reads as a {type(value).__name__}: quote it"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean X?" with the nearest known word, or ";" if none is near; text follows."""
    nearest = get_close_matches(word, list(known), n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ";"


def listed(words: Iterable[str]) -> str:
    """Words with commas, or "none"."""
    return ", ".join(words) or "none"
