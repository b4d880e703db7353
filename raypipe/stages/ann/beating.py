"""Heartbeats while a library computes for minutes without a call in between."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from typing import TypeVar

from raypipe.stages.stage import Beat

Made = TypeVar("Made")
SECONDS = 10.0
"""Between two heartbeats; a worker counts as dead after 120 s without one."""


def beating(beat: Beat, work: Callable[[], Made]) -> Made:
    """The result of `work`, which runs on another thread while this one sends heartbeats."""
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(work)
        while not wait_for([begun], timeout=SECONDS).done:
            beat(())
        return begun.result()
