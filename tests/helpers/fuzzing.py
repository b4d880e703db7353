"""Runs a reader over seeded mutants, and holds it to what every reader of a file promises.

It gives rows, or ends with an error of raypipe's own that says something; it needs a few seconds
and some megabytes at most. What it gives is for each test to compare with a simple reader.
"""

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from raypipe.errors import ending_of

MUTANTS = (
    pytest.param(60, id="60"),
    pytest.param(120, id="120", marks=pytest.mark.slow),
    pytest.param(1000, id="1000", marks=pytest.mark.long),
)
SECONDS = 5.0
"""Most seconds of processors for one mutant; a loaded machine does not make them more."""
MOST_BYTES = 96 << 20
"""Most memory that one mutant may add: 64 MiB may be unpacked from any small file."""
MOST_CHARACTERS = 20_000
"""Of a message: it quotes the beginning of what it found."""


class Hung(BaseException):
    """A reader went on for `SECONDS`; no reader can take this for an error of its own."""


def many(test):
    """The test with 60 mutants, with 120 others in the slow part, and with a thousand by hand."""
    return pytest.mark.parametrize("num_mutants", MUTANTS)(test)


def fuzz(mutants, check, num_mutants, *, known=()):
    """Calls `check` with that many mutants of a strategy, the same ones every time.

    Those in `known` come first: each once brought a reader down.

    It returns whether the mutant was read. Some must be, and some refused: otherwise the mutants
    are too tame or too wild to find anything.
    """
    for mutant in known:
        check(mutant)
    outcomes = []

    @seed(num_mutants)
    @settings(
        max_examples=num_mutants,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(mutants)
    def each(mutant):
        outcomes.append(check(mutant))

    each()
    assert len(outcomes) >= num_mutants
    assert set(outcomes) == {True, False}


def read_or_refused(read, *, most_bytes=MOST_BYTES):
    """What `read` returns, and None; or None, and the message of a refusal that raypipe allows.

    Anything else that comes out of it fails the test: a traceback, too much time or memory, an
    error without a message or of endless length.
    """
    with _limits(most_bytes):
        try:
            return read(), None
        except Exception as error:
            ending = ending_of(error)
            if ending.reason.startswith("a bug in raypipe"):
                raise
            told = str(error)
    assert told.strip()
    assert len(told) < MOST_CHARACTERS, told[:1000]
    return None, told


@contextmanager
def _limits(most_bytes):
    """Raises Hung after `SECONDS` of processor time; AssertionError after too much memory."""

    def stop(number, frame):
        raise Hung

    before = _restarted_peak()
    standing = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, standing)
    added = _peak() - before
    assert added <= most_bytes, f"{added:,} bytes more in memory"


def _restarted_peak():
    """The resident bytes, from which the kernel measures the peak again; 0 without Linux."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        return 0
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak():
    path = Path("/proc/self/status")
    if not os.access("/proc/self/clear_refs", os.W_OK):
        return 0
    (line,) = (line for line in path.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10
