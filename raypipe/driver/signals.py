"""SIGINT and SIGTERM, noted so that the loop can check for them between shards."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from raypipe.errors import Interrupted, RaypipeError

RAYS_SWITCH = "RAY_DISABLE_FAILURE_SIGNAL_HANDLER"


def leave_to_python() -> None:
    """Keep Ray's own handler of SIGTERM out of this process; Ray must not be imported yet.

    That handler prints a trace, and ends the process with SIGABRT after 3 s, before it could say
    how it ended.
    """
    os.environ.setdefault(RAYS_SWITCH, "1")


def end_on_sigterm() -> None:
    """Let SIGTERM raise Interrupted where no invocation notes it, as Ctrl-C raises its own error.

    So a command that is ended before its work or after it says so too.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise interrupted(number)

    signal.signal(signal.SIGTERM, stop)


def interrupted(number: int) -> Interrupted:
    """The error of an invocation that this signal ends."""
    name = signal.Signals(number).name
    return Interrupted(f"{name}: the same command resumes where this one stopped", 128 + number)


@contextmanager
def child_ended_by_signals(
    command: Sequence[str], **more: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A child process, which SIGINT and SIGTERM end too, beside what they do otherwise.

    A driver that only notes a signal would wait for its child, which need not receive it.
    """
    main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: own for number, own in handlers.items() if main and callable(own)}
    came, children = list[int](), list[subprocess.Popen[bytes]]()

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        for child in children:
            child.send_signal(number)
        before[signal.Signals(number)](number, frame)

    for number in before:
        signal.signal(number, handle)
    try:
        with subprocess.Popen(command, **more) as child:
            children.append(child)
            for one in came:  # before it was there
                child.send_signal(one)
            yield child
    finally:
        for number, own in before.items():
            signal.signal(number, own)


@contextmanager
def interruptible() -> Iterator[Callable[[], RaypipeError | None]]:
    """Delays SIGINT and SIGTERM inside; the function it gives returns one that was received.

    Python delivers signals to the main thread; in any other thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if "ray" in sys.modules:
            signal.alarm(0)  # of Ray's handler, where Ray was imported before it could be kept out

    def should_stop() -> RaypipeError | None:
        return interrupted(came[0]) if came else None

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield should_stop
        stopped = should_stop()
        if stopped is not None:
            raise stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
