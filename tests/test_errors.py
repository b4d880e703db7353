"""The exit code and the reason of every exception."""

import errno
import os

import pytest

from raypipe.errors import (
    CorruptError,
    FullError,
    IncompleteError,
    InputError,
    Interrupted,
    LimitError,
    RefusedError,
    StorageError,
    cause_of,
    ending_of,
)

FAILED = ["EIO", "ESTALE", "ENOSPC", "EDQUOT", "ENOENT", "ETIMEDOUT", "ECONNREFUSED", "EBUSY",
          "ENODEV", "ENXIO", "EAGAIN", "EHOSTUNREACH", "ENOLCK", "EMFILE", "EFBIG"]  # fmt: skip
NAMED = ["EACCES", "EPERM", "EROFS", "EOPNOTSUPP", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "EXDEV"]
BUGS = ["EBADF", "EFAULT", "EINVAL", "EEXIST"]


@pytest.mark.fault(
    9, "15 errors are storage that failed (3), 8 a wrong place (2), with path and words"
)
def test_a_systems_error_is_storage_that_failed_a_wrong_place_or_a_bug():
    for name, code in [(n, 3) for n in FAILED] + [(n, 2) for n in NAMED] + [(n, 1) for n in BUGS]:
        number = getattr(errno, name)
        ending = ending_of(OSError(number, os.strerror(number), "a/b", None, "c"))
        assert ending.exit_code == code and os.strerror(number) in ending.reason
        assert "a/b" in ending.reason and "c" in ending.reason
        assert ("run the same command again" in ending.reason) == (code != 1)
        assert ("a bug" in ending.reason) == (code == 1)


def test_errors_without_a_number_are_the_networks_or_a_bug():
    assert ending_of(ConnectionResetError("gone")).exit_code == 3
    assert "gone; mend this" in ending_of(TimeoutError("gone\n  away")).reason
    assert ending_of(OSError("thrift")) == (1, "a bug in raypipe: OSError('thrift')")
    assert ending_of(KeyError("a\nb")) == (1, r"a bug in raypipe: KeyError('a\nb')")


def test_raypipes_own_errors_say_their_code_and_their_first_line():
    assert ending_of(InputError(["one", "two"])) == (2, "one")
    assert ending_of(CorruptError("")) == (3, "CorruptError")
    assert ending_of(StorageError("down\nagain")) == (3, "down")
    assert ending_of(KeyboardInterrupt())[0] == 130


def behind(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (InputError("x"), "input"),
        (FileNotFoundError(errno.ENOTDIR, "x"), "input"),
        (OSError(errno.ENOSPC, "x"), "disk full"),
        (OSError(errno.EDQUOT, "x"), "disk full"),
        (FullError("does not fit"), "disk full"),
        (behind(StorageError("x"), OSError(errno.ENOSPC, "x")), "disk full"),
        (behind(StorageError("x"), OSError(errno.EIO, "x")), "storage"),
        (OSError(errno.EIO, "x"), "storage"),
        (CorruptError("x"), "damaged"),
        (IncompleteError("x"), "incomplete"),
        (RefusedError("x"), "refused"),
        (LimitError("x"), "limit"),
        (Interrupted("x", 143), "interrupted"),
        (KeyboardInterrupt(), "interrupted"),
        (ZeroDivisionError(), "bug"),
    ],
)
def test_errors_of_one_exit_code_are_told_apart_by_their_cause(error, cause):
    assert cause_of(error) == cause
