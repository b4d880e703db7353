"""The option --break-ties of the commands that read run files."""

from typing import Annotated, cast

import typer

from raypipe.errors import InputError
from raypipe.vocabulary import BreakTies, words

Ties = Annotated[
    str,
    typer.Option(
        "--break-ties",
        help="Order of a run's equal scores: id (passage id descending, as in trec_eval) or rank "
        "(as in the file).",
    ),
]


def checked(given: str) -> BreakTies:
    """The word given.

    Raises:
        InputError: another word.
    """
    if given not in words(BreakTies):
        raise InputError(f"--break-ties: expected id or rank; found {given!r}")
    return cast(BreakTies, given)
