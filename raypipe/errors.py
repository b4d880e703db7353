"""The errors that end an invocation, and the exit code and reason of any exception."""

import errno
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

LEAVE_INPUTS = "An input must not change while it is read; run the same command again"
"""The end of every message about an input file that changed while it was read."""


_UNSEEN = re.compile(r"[^\n\t -~\u00a0-\U0010ffff]|[\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with its control characters written out, such as \\x1b, but for tabs and line ends.

    What comes from files, such as an id, could else move a terminal's cursor, name its window or
    turn the direction of what follows.
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


_ENDS = re.compile(r"[\n\t\u2028\u2029]")


def in_one_cell(text: str) -> str:
    """The text, such as a file's name, with tabs and line ends written out as well."""
    return _ENDS.sub(lambda match: match[0].encode("unicode_escape").decode(), visible(text))


MOST_SHOWN = 60


def shown(value: object) -> str:
    """The value in a message: as Python writes it in ASCII, cut to 60 characters.

    In ASCII, a letter that looks like another, or a character that shows nothing, is told from it.
    """
    try:
        text = ascii(value)
    except ValueError:  # Python refuses to print ints of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


MOST_NAMES = 10


def some(names: Collection[str]) -> str:
    """The first ten names, for a message."""
    return ", ".join(islice(names, MOST_NAMES)) + (", ..." if len(names) > MOST_NAMES else "")


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """ "; did you mean X?" with the nearest of the words, or ";" if none is near; text follows."""
    nearest = get_close_matches(word, list(words), n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ";"


def listed(words: Iterable[str]) -> str:
    """Words with commas, or "none"."""
    return ", ".join(words) or "none"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, with the next one where it ends in a colon; the class
    name if the message is empty."""
    first, _, rest = str(error).strip().partition("\n")
    more = rest.strip().partition("\n")[0] if first.endswith(":") else ""
    return f"{first} {more}".rstrip() or type(error).__name__


class RaypipeError(Exception):
    """An error that a user can act on; `exit_code` is the exit code of the process."""

    exit_code = 1
    cause = "bug"
    """The word for it in summary.json; see `cause_of`."""


class InputError(RaypipeError, ValueError):
    """Bad input or configuration. The message lists every problem found, one per line.

    Each problem says what is wrong, where (file and line, or row), what was expected, what was
    found and what to do.
    """

    exit_code = 2
    cause = "input"

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type, tuple[list[str]]]:
        """Pickles with every problem, so that a worker's error reaches the driver complete."""
        return type(self), (self.problems,)


@contextmanager
def problems_in(where: object) -> Iterator[None]:
    """Each problem of an InputError raised in the block begins with `where`.

    Raises:
        InputError: the block raised one.
    """
    try:
        yield
    except InputError as error:
        raise InputError([f"{where}: {problem}" for problem in error.problems]) from error


class IncompleteError(RaypipeError):
    """Something planned is missing: a shard, a manifest, a query."""

    exit_code = 3
    cause = "incomplete"


class CorruptError(RaypipeError):
    """Stored bytes are not the bytes that were committed."""

    exit_code = 3
    cause = "damaged"


class StorageError(RaypipeError, OSError):
    """Storage failed: a disk, a network file system or a bucket. The same command resumes."""

    exit_code = 3
    cause = "storage"


class FullError(StorageError):
    """The space that is free does not hold what would be written."""

    cause = "disk full"


class RefusedError(RaypipeError):
    """The invocation was refused, by `--frozen` or by another driver's live lease."""

    exit_code = 4
    cause = "refused"


class LimitError(RaypipeError):
    """A limit that the user set was exceeded."""

    exit_code = 5
    cause = "limit"


class Interrupted(RaypipeError):
    """A signal ended the invocation. Committed work is kept; the same command resumes."""

    cause = "interrupted"

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class RowsFailed(ArithmeticError):
    """Rows without a finite value. They are put into quarantine; the others are computed."""

    def __init__(self, rows: Sequence[int], reason: str) -> None:
        self.rows, self.reason = tuple(int(row) for row in rows), reason
        shown = ", ".join(map(str, self.rows[:10]))
        super().__init__(f"{len(self.rows)} rows: {reason}; first rows [{shown}]")

    def __reduce__(self) -> tuple[type, tuple[tuple[int, ...], str]]:
        """Pickles with rows and reason, so that a worker's error reaches the driver complete."""
        return type(self), (self.rows, self.reason)


class RowsRefused(RowsFailed, RaypipeError):
    """Rows without a finite value in memory, where there is no quarantine."""

    exit_code = 5
    cause = "limit"


class Ending(NamedTuple):
    """How an exception ends an invocation."""

    exit_code: int
    reason: str
    """One line."""


def ending_of(error: BaseException) -> Ending:
    """The exit code and reason of an exception, for the process, summary.json and status alike.

    A system's error is the user's to mend (2) if a place or permission that they named is the
    cause, storage that failed (3) if not, and a bug (1) only if raypipe made a call that is never
    right. An error without a number, such as a library's own, is a bug.
    """
    if isinstance(error, RaypipeError):
        return Ending(error.exit_code, first_line(error))
    if isinstance(error, KeyboardInterrupt):
        return Ending(130, "interrupted; the same command resumes")
    if isinstance(error, OSError) and (code := _code_of_system(error)):
        mend = "mend this"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            mend = "free space there (`raypipe plan` says what a recipe's stores take)"
        return Ending(code, f"{_told(error)}; {mend} and run the same command again")
    return Ending(1, f"a bug in raypipe: {in_full(error)}")


def cause_of(error: BaseException) -> str:
    """One word or two for an error, where several have one exit code: `disk full`, `damaged`.

    The others are input, incomplete, storage, refused, limit, interrupted and bug.
    """
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EDQUOT):
            return FullError.cause
        each = each.__cause__
    if isinstance(error, RaypipeError):
        return error.cause
    kinds = {2: InputError.cause, 3: StorageError.cause, 130: Interrupted.cause}
    return kinds.get(ending_of(error).exit_code, RaypipeError.cause)


def in_full(error: BaseException) -> str:
    """The error as Python shows it, in one line, with the files that this leaves out of OSError."""
    where = f": {_told(error)}" if isinstance(error, OSError) and error.filename else ""
    return f"{' '.join(repr(error).split())}{where}"


def _told(error: OSError) -> str:
    """The system's own message, with the files that it names."""
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    where = f": {' and '.join(names)}" if names else ""
    return " ".join(f"{error.strerror or first_line(error)}{where}".split())


def _code_of_system(error: OSError) -> int | None:
    """The exit code of an error that the operating system reports; None if it is a bug."""
    if error.errno is None:
        return 3 if isinstance(error, ConnectionError | TimeoutError) else None
    if error.errno in _NEVER_RIGHT:
        return None
    return 2 if error.errno in _NAMED_WRONGLY else 3


_NAMED_WRONGLY = frozenset(
    {
        errno.EACCES,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOSYS,
        errno.ENOTDIR,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
    }
)
"""Another place, or a permission, is needed: without it the same command fails again."""
_NEVER_RIGHT = frozenset(
    {
        errno.EBADF,
        errno.ECHILD,
        errno.EDOM,
        errno.EEXIST,
        errno.EFAULT,
        errno.EINVAL,
        errno.ENOTEMPTY,
        errno.ENOTTY,
        errno.ERANGE,
        errno.ESPIPE,
        errno.ESRCH,
    }
)
"""Such a call is wrong wherever it is made."""
