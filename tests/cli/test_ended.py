import pytest

from raypipe.cli.main import Ended
from raypipe.errors import CorruptError, InputError, Interrupted, LimitError, RefusedError


def test_a_reason_that_was_not_printed_stands_on_the_last_line():
    assert Ended(0, "complete").line() == "raypipe: exit 0 (complete)"
    assert Ended(3, "as recorded in the workspace").line() == (
        "raypipe: exit 3 (as recorded in the workspace)"
    )


@pytest.mark.parametrize(
    "error, meant",
    [
        (InputError("x"), "bad input or configuration"),
        (CorruptError("x"), "incomplete, corrupt, or storage failed"),
        (RefusedError("x"), "refused"),
        (LimitError("x"), "a limit was exceeded"),
        (Interrupted("x", 143), "interrupted; the same command resumes"),
        (Interrupted("x", 130), "interrupted; the same command resumes"),
        (RuntimeError("x"), "a bug in raypipe"),
    ],
    ids=lambda value: getattr(type(value), "__name__", None),
)
def test_a_reason_that_was_printed_is_not_repeated(error, meant):
    code = getattr(error, "exit_code", 1)
    assert Ended(code, str(error), told=True).line() == f"raypipe: exit {code} ({meant})"
