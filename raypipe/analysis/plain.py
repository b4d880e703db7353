"""Texts of a collection as they can be shown: one line, and nothing that moves a cursor."""

import re

UNSHOWN = "\ufffd"
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of the text after them."""


def plain(text: str) -> str:
    """The text in one line: blanks of any kind become one, and control characters U+FFFD."""
    return _UNSAFE.sub(UNSHOWN, " ".join(text.split()))


def cut(text: str, num_characters: int) -> str:
    """The first characters, with ` ...` if there are more."""
    return text if len(text) <= num_characters else f"{text[:num_characters].rstrip()} ..."
