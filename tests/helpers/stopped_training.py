"""A training that is told to stop in the middle of a step."""

import contextlib
import os
import signal

from raypipe.training import steps as update


@contextlib.contextmanager
def stopped_at(monkeypatch, count):
    """SIGTERM to this process in the count-th backward; no other follows."""
    real, seen = update.backward, []

    def counted(*arguments, **named):
        seen.append(1)
        if len(seen) == count:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(update, "backward", counted)
        yield
    assert len(seen) == count
