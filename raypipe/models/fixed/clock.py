"""When a device began and ended a batch, without making it wait."""

import time
from typing import Protocol

import torch


class Clock(Protocol):
    """Runs from when it is made until `stop`, as the device sees it."""

    def stop(self) -> None:
        """Called after the batch's last kernel was sent."""

    def wait(self) -> float:
        """Wait for the batch; the seconds in which it was computed."""


class HostClock:
    """For a device that computes while the host waits: the CPU."""

    def __init__(self) -> None:
        """It runs."""
        self._began = time.perf_counter()
        self._seconds = 0.0

    def stop(self) -> None:
        """See Clock."""
        self._seconds = time.perf_counter() - self._began

    def wait(self) -> float:
        """See Clock."""
        return self._seconds


class CudaClock:
    """Two events in the device's queue."""

    def __init__(self) -> None:
        """It runs when the device comes to it."""
        self._events = [_event(), _event()]
        self._events[0].record()

    def stop(self) -> None:
        """See Clock."""
        self._events[1].record()

    def wait(self) -> float:
        """See Clock."""
        began, ended = self._events
        ended.synchronize()
        return float(began.elapsed_time(ended)) / 1000


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def clock_of(device: str) -> Clock:
    """A clock for `cuda` or another device."""
    return CudaClock() if device == "cuda" else HostClock()
