"""Runs batches in passes of fixed shape, and does not wait for one before it starts the next.

The host writes a batch's plan, a few numbers for each input, into pinned memory; the device copies
it, makes the inputs, computes, and copies the result back. The host waits only for the result of
two batches before. A clock says when the device began and ended a batch, without making it wait.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raypipe.models.gpu.step import (
    FixedShape,
    Step,
    compact,
    gathered,
    groups_between,
    on_device,
    write_plan,
)
from raypipe.models.machine.precision import set_products
from raypipe.text.inputs import Layout, TextSlice, taken


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


IN_FLIGHT = 2
"""Batches that the device has and the host does not wait for."""
RESIDENT_BYTES = 1 << 30
"""Word pieces up to this size lie on the device as a whole, if no fewer tokens than these are to be
computed. Otherwise each batch brings its own."""

Rows = NDArray[np.int64]
Beat = Callable[[Sequence[int]], None]


@dataclass(frozen=True, slots=True)
class Busy:
    """Of one call of `FixedEngine.results`."""

    seconds: float
    """From its beginning to its end."""
    computing: float
    """In which the device computed."""

    @property
    def idle_share(self) -> float:
        """The part of the time in which the device did not compute, 0 to 1."""
        return max(0.0, 1.0 - self.computing / self.seconds) if self.seconds else 0.0


@dataclass(slots=True)
class _Slot:
    """Memory of one batch in flight, on the host: its plan, and its result once that is known."""

    plan: Tensor
    result: Tensor | None = None


@dataclass(frozen=True, slots=True)
class _Flight:
    """A batch that the device computes."""

    rows: Rows
    slot: _Slot
    clock: Clock


class FixedEngine:
    """One step, run over batches; for one thread."""

    def __init__(
        self,
        step: Step,
        shape: FixedShape,
        *,
        device: str,
        precision: str,
        by_groups: bool,
        resident_bytes: int = RESIDENT_BYTES,
    ) -> None:
        """Nothing is computed yet.

        Args:
            step: computes the result of a pass, [R, X].
            shape: the sizes of every pass.
            device: cpu or cuda.
            precision: of the products.
            by_groups: whether the step's attention needs the groups of equal lengths.
            resident_bytes: see RESIDENT_BYTES.
        """
        self.shape, self.busy = shape, Busy(0.0, 0.0)
        self.computed_seconds = 0.0
        """In which the device computed, of all calls so far."""
        self._step, self._device, self._precision = step, device, precision
        self._by_groups, self._resident_bytes = by_groups, resident_bytes
        self._slots = [_Slot(self._host(shape.plan_size)) for _ in range(IN_FLIGHT + 1)]

    def results(
        self, texts: Sequence[TextSlice], layout: Layout, *, budget_tokens: int, beat: Beat
    ) -> Iterator[tuple[Rows, NDArray[np.float32]]]:
        """(rows, their results fp32 [n, X]) of every batch, in the order of the batches.

        Afterwards `busy` says how long the device computed.

        Args:
            texts: the texts of all inputs, each cut to what the input keeps.
            layout: special tokens, segments and positions.
            budget_tokens: tokens in a batch, at most T; it changes no byte.
            beat: called before each batch with its rows and those of the batches in flight: an
                error of the device may be of any of them.
        """
        began, computing = time.perf_counter(), 0.0
        set_products(self._precision)
        lengths = layout.lengths([text.counts for text in texts])
        resident = self._resident(texts, int(lengths.sum()))
        flights: deque[_Flight] = deque()
        batches = self.shape.batches(lengths, budget_tokens=budget_tokens)
        for number, rows in enumerate(batches):
            if len(flights) == IN_FLIGHT:
                rows_before, result, seconds = self._landed(flights.popleft())
                computing += seconds
                yield rows_before, result
            beat([row for flight in flights for row in flight.rows.tolist()] + rows.tolist())
            slot = self._slots[number % len(self._slots)]
            flights.append(self._started(rows, texts, resident, layout, slot))
        while flights:
            rows_before, result, seconds = self._landed(flights.popleft())
            computing += seconds
            yield rows_before, result
        self.busy = Busy(time.perf_counter() - began, computing)
        self.computed_seconds += computing

    @torch.inference_mode()
    def _started(
        self,
        rows: Rows,
        texts: Sequence[TextSlice],
        resident: list[Tensor] | None,
        layout: Layout,
        slot: _Slot,
    ) -> _Flight:
        own = [taken(text, rows) for text in texts]
        flats = resident
        if flats is None:
            own = compact(own)
            flats = [on_device(own[0].flat, self._device)] * len(own)
        edges = write_plan(slot.plan.numpy(), own, layout, self.shape)
        groups = groups_between(edges) if self._by_groups else []
        clock = clock_of(self._device)
        plan = slot.plan.to(self._device, non_blocking=True)
        result = self._step(gathered(flats, plan, layout, self.shape), groups)
        if slot.result is None:
            slot.result = self._host(*result.shape, dtype=result.dtype)
        slot.result[: len(rows)].copy_(result[: len(rows)], non_blocking=True)
        clock.stop()
        return _Flight(rows, slot, clock)

    def _landed(self, flight: _Flight) -> tuple[Rows, NDArray[np.float32], float]:
        """Wait for a batch: its rows, its result, and the seconds in which it was computed."""
        seconds = flight.clock.wait()
        assert flight.slot.result is not None
        # A copy: the slot belongs to another batch soon.
        return flight.rows, flight.slot.result[: len(flight.rows)].numpy().copy(), seconds

    def _resident(self, texts: Sequence[TextSlice], tokens: int) -> list[Tensor] | None:
        """All pieces on the device, those of texts with the same pieces once; None if too many."""
        flats = {id(text.flat): text.flat for text in texts}
        pieces = sum(len(flat) for flat in flats.values())
        size = sum(flat.nbytes for flat in flats.values())
        if pieces > tokens or size > self._resident_bytes:
            return None
        there = {key: on_device(flat, self._device) for key, flat in flats.items()}
        return [there[id(text.flat)] for text in texts]

    def _host(self, *size: int, dtype: torch.dtype = torch.int64) -> Tensor:
        """Memory of the host, for a GPU pinned, so that copies do not wait."""
        return torch.empty(*size, dtype=dtype, pin_memory=self._device == "cuda")
