"""A thread beside the test's own."""

import threading
import time


def let_run(thread, monkeypatch):
    """Start it if need be; return when it has ended or sleeps, as it does while it waits for gc."""
    asleep, sleep = threading.Event(), time.sleep

    def noted(seconds):
        if threading.current_thread() is thread:
            asleep.set()
        sleep(min(seconds, 0.01))

    monkeypatch.setattr(time, "sleep", noted)
    if thread.ident is None:
        thread.start()
    while thread.is_alive() and not asleep.wait(0.01):
        pass
