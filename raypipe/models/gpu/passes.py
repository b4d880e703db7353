"""Forward passes of fixed shape: a plan, inputs, attention, what is computed, and the engine.

The host does not wait for one batch before it starts the next. It writes a plan, a few numbers for
each input, into pinned memory; the device copies it, makes the inputs, computes, and copies the
result back. The host waits only for the result of two batches before. A clock says when the device
began and ended a batch, without making it wait.

The plan says where a batch's pieces lie and where rows end. From it the device makes the
same inputs as `text.inputs.make_inputs` makes on the host, and filler behind them. Every size is
known beforehand, so nothing waits for the device.

The work between a layer's products is in fused kernels on CUDA for bf16 and fp16
(`raypipe.models.gpu.kernels`), and in torch's functions elsewhere and wherever a trial of these
kernels fails.

Attention is PyTorch's kernel for sequences of any length, which exists on CUDA alone, for bf16 and
fp16. Elsewhere, and wherever a trial of it fails, sequences of equal length are grouped, and each
group is one call without a mask.

Shapes: T tokens of the pass, R inputs at most, E edges, H hidden, U units; see the plan.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from raypipe.models.family import Family
from raypipe.models.machine.precision import set_products
from raypipe.models.packed import (
    Attention,
    Between,
    Body,
    Groups,
    Head,
    Linear,
    Plain,
    attend_freely,
    groups_of,
)
from raypipe.models.pooling import AnyFinishing, pool_between
from raypipe.text.batches import batches
from raypipe.text.inputs import Flat, Layout, TextSlice, taken

Int64 = NDArray[np.int64]

TOKENS_A_ROW = 16
"""A pass has room for a row in so many tokens: a passage has about 70, a query about 8."""


@dataclass(frozen=True, slots=True)
class FixedShape:
    """The sizes that every forward pass of a model has, however little of it is used."""

    tokens: int
    """T, of which the batch's come first; the others are filler."""
    longest: int
    """The largest number of tokens of one sequence; the filler is cut into sequences as well."""
    texts: int = 1
    """Texts of an input."""

    @property
    def rows(self) -> int:
        """R, the largest number of inputs."""
        return max(16, self.tokens // TOKENS_A_ROW)

    @property
    def num_edges(self) -> int:
        """E: the beginning of every input and of every sequence of filler, and the end."""
        return self.rows + -(-self.tokens // self.longest) + 1

    @property
    def plan_size(self) -> int:
        """Numbers in a plan."""
        return 2 * self.texts * self.rows + self.num_edges

    def batches(self, lengths: Int64, *, budget_tokens: int) -> Iterator[Int64]:
        """Like `text.batches.batches`, of at most R inputs each."""
        for batch in batches(lengths, budget_tokens=min(budget_tokens, self.tokens)):
            for start in range(0, len(batch), self.rows):
                yield batch[start : start + self.rows]


def write_plan(plan: Int64, texts: Sequence[TextSlice], layout: Layout, shape: FixedShape) -> Int64:
    """Fill `plan`, int64 [plan_size], for a batch of at most R inputs; the edges in it, [E].

    The plan is starts [texts, R], counts [texts, R] and edges [E]: sequence i has the tokens
    `edges[i]` to `edges[i + 1]`, so unused inputs are empty. Filler ends at T.
    """
    num_inputs, room = len(texts[0].counts), shape.rows
    assert len(texts) == shape.texts and num_inputs <= room
    starts, counts, edges = parts_of(plan, shape)
    starts[:, num_inputs:], counts[:, num_inputs:] = 0, 0
    for number, text in enumerate(texts):
        starts[number, :num_inputs], counts[number, :num_inputs] = text.starts, text.counts
    edges[0] = 0
    edges[1 : num_inputs + 1] = np.cumsum(layout.lengths([text.counts for text in texts]))
    total = int(edges[num_inputs])
    assert total <= shape.tokens
    edges[num_inputs + 1 : room + 1] = total
    behind = total + shape.longest * np.arange(1, shape.num_edges - room)
    edges[room + 1 :] = np.minimum(behind, shape.tokens)
    return edges


def parts_of(plan: Int64, shape: FixedShape) -> tuple[Int64, Int64, Int64]:
    """Views of a plan: starts [texts, R], counts [texts, R], edges [E]; a tensor's likewise."""
    size = shape.texts * shape.rows
    starts = plan[:size].reshape(shape.texts, shape.rows)
    counts = plan[size : 2 * size].reshape(shape.texts, shape.rows)
    return starts, counts, plan[2 * size :]


Varlen = Callable[..., Tensor]
"""(query, key, value [T, heads, D] each, edges int32 [E], the longest, and the window if there is
one) -> [T, heads, D]."""
STRETCH = 128
"""Tokens of a sequence that a block of the kernel computes, for heads of 64 on an H200."""
TOLERANCE = 2e-2
"""Tolerance for a value near 1: bf16 keeps 8 bits, so that each of the two ways rounds by 4e-3."""


def over(varlen: Varlen, edges: Tensor, longest: int) -> Attention:
    """Attention of packed sequences, [T, 3H] -> [T, H], that ignores its groups.

    Tokens behind the last edge have no value.

    Args:
        varlen: computes it.
        edges: where sequences begin and end, [E].
        longest: the largest number of tokens of one.
    """
    narrow = edges.to(torch.int32)  # once for all layers

    def attend(qkv: Tensor, num_heads: int, groups: Groups, window: int | None = None) -> Tensor:
        own = () if window is None else (window,)
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        query, key, value = qkv.view(tokens, 3, num_heads, width // num_heads).unbind(1)
        return varlen(query, key, value, narrow, longest, *own).reshape(tokens, width)

    return attend


def groups_between(edges: Int64) -> Groups:
    """The groups of equal lengths for `attend_freely`, filler's included, from edges on the host.

    Sequences without tokens are left out.
    """
    lengths = np.diff(edges)
    return groups_of(lengths[lengths > 0])


def found_varlen(
    device: str, dtype: torch.dtype, head_size: int, windows: Collection[int | None] = (None,)
) -> Varlen | None:
    """PyTorch's kernel, if this device computes these heads and windows with it; None if not.

    It is tried on some sequences, one of them empty, with rows behind the last, and compared with
    attention by length.
    """
    if torch.device(device).type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # before torch 2.10
        return None

    def varlen(
        query: Tensor, key: Tensor, value: Tensor, edges: Tensor, longest: int, *window: int
    ) -> Tensor:
        # Releases before the window lack its argument.
        own: dict[str, Any] = {"window_size": window * 2} if window else {}
        found = varlen_attn(query, key, value, edges, edges, longest, longest, **own)
        assert isinstance(found, Tensor)  # the log-sum-exp was not asked for
        return found

    every = (agrees(varlen, device, dtype, head_size, window) for window in windows)
    return varlen if all(every) else None


@torch.inference_mode()
def agrees(
    varlen: Varlen, device: str, dtype: torch.dtype, head_size: int, window: int | None = None
) -> bool:
    """Whether it computes what attention by length does; no if it does not run here."""
    edges = np.array([0, 1, 1, 18, 145, 190], np.int64)
    draw = torch.Generator().manual_seed(1)
    total = int(edges[-1])
    qkv = torch.randn(total + 30, 6 * head_size, generator=draw).to(device, dtype)
    groups = groups_between(edges)
    attend = over(varlen, torch.from_numpy(edges).to(device), 256)
    try:
        output = attend(qkv, 2, groups, window)[:total].float()
    except (RuntimeError, TypeError):  # an older GPU, another head size or signature
        return False
    expected = attend_freely(qkv[:total], 2, groups, window).float()
    return bool(torch.isfinite(output).all()) and float((output - expected).abs().max()) < TOLERANCE


NEAR = 1e-5
"""Tolerance for fp32 values near 1 after a normalisation: its sums have another order."""
SMALL_GELU = 1e-3
"""Tolerance for values of gelu that are small beside those near 1."""


def found_kernels(device: str, dtype: torch.dtype, width: int) -> Between | None:
    """Fused kernels for the work between products, if this device computes them; None if not."""
    if torch.device(device).type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return None
    try:
        from raypipe.models.gpu.kernels import Kernels
    except ImportError:  # a build of PyTorch without Triton
        return None
    kernels = Kernels()
    return kernels if computes_plainly(kernels, device, dtype, width) else None


@torch.inference_mode()
def computes_plainly(between: Between, device: str, dtype: torch.dtype, width: int) -> bool:
    """Whether it computes what torch's functions do; no if it does not run here.

    A row that is not finite, as of filler, must leave the others as they are.
    """
    draw = torch.Generator().manual_seed(2)
    x, y = (torch.randn(37, width, generator=draw) for _ in range(2))
    x[5] = float("nan")
    x, y = x.to(device, dtype), y.to(device)
    weight, bias = (torch.randn(size, generator=draw).to(device) for size in (width, width))
    wider = torch.randn(4 * width, width, generator=draw).to(device, dtype) * width**-0.5
    of_wider = torch.randn(4 * width, generator=draw).to(device, dtype)
    eps = 1e-12
    plain = Plain().sum_norm(x.clone(), y, (weight, bias), eps).wide
    narrow = y.to(dtype)
    expected = F.gelu(whole(narrow, (wider, of_wider[:0])).float() + of_wider.float())
    try:
        states = between.sum_norm(x.clone(), y.clone(), (weight, bias), eps)
        inner = between.inner(narrow, (wider, of_wider), whole)
        judged = torch.isfinite(plain)
        same = bool((torch.isfinite(states.wide) == judged).all())
    # Triton, its compiler and the driver have errors of their own: no C compiler, an older GPU.
    except Exception:
        return False
    plain = torch.where(judged, plain, 0.0)
    pairs = (
        (torch.where(judged, states.wide, 0.0), plain, NEAR, NEAR),
        (torch.where(judged, states.narrow.float(), 0.0), plain, TOLERANCE / 2, NEAR),
        (inner.float(), expected, TOLERANCE, SMALL_GELU),
    )
    return same and all(
        bool(((found - right).abs() <= least + share * right.abs()).all())
        for found, right, share, least in pairs
    )


class Gathered(NamedTuple):
    """The inputs of a pass."""

    ids: Tensor
    """Token ids, int64 [T]."""
    positions: Tensor
    """Positions within a sequence, int64 [T]; filler has the first."""
    segments: Tensor
    """Segment ids, int64 [T]; filler has that of the first text."""
    edges: Tensor
    """Where sequences begin and end, int64 [E]."""


def on_device(flat: Flat, device: str) -> Tensor:
    """Word pieces on a device, int16 or int32 with the same bits, at least one.

    Few kernels know uint16; `gathered` reads the bits as they were meant.
    """
    signed: NDArray[np.int16 | np.int32] = np.ascontiguousarray(flat).view(
        np.int16 if flat.dtype == np.uint16 else np.int32
    )
    if not len(signed):
        signed = np.zeros(1, signed.dtype)
    if not signed.flags.writeable:  # torch warns of a mapped file, which it could write to
        signed = signed.copy()
    return torch.from_numpy(signed).to(device)


def compact(texts: list[TextSlice]) -> list[TextSlice]:
    """The texts of one batch with their own pieces alone, for collections too large for a device.

    Every text has the same `flat`: the pieces of the first texts, then of the second ones, and so
    on.
    """
    flats, places, before = [], [], 0
    for text in texts:
        ends = np.cumsum(text.counts)
        starts = ends - text.counts
        total = int(ends[-1])
        flats.append(text.flat[np.arange(total) + np.repeat(text.starts - starts, text.counts)])
        places.append((starts + before, text.counts))
        before += total
    flat = np.concatenate(flats)
    return [TextSlice(flat, starts, counts) for starts, counts in places]


def gathered(flats: list[Tensor], plan: Tensor, layout: Layout, shape: FixedShape) -> Gathered:
    """The inputs of the batch of a plan.

    Args:
        flats: from `on_device`, for each text of an input.
        plan: of `write_plan`, on the device.
        layout: special tokens, segments and positions.
        shape: the sizes.
    """
    starts, counts, edges = cast(tuple[Tensor, Tensor, Tensor], parts_of(cast(Int64, plan), shape))
    token = torch.arange(shape.tokens, device=plan.device)
    row = torch.searchsorted(edges[1 : shape.rows + 1], token, right=True)
    row.clamp_(max=shape.rows - 1)
    filler = token >= edges[shape.rows]
    offset = (token - edges[row]).masked_fill_(filler, 0)
    closing = layout.last or 0  # any piece serves as filler
    ids = torch.full_like(token, closing)
    segments = torch.full_like(token, layout.segments[0])
    at = torch.zeros_like(token)
    for special in layout.before:
        ids.masked_fill_(offset == at, special)
        at = at + 1
    for number, flat in enumerate(flats):
        count = counts[number][row]
        inside = (offset >= at) & (offset < at + count)
        source = (starts[number][row] + offset - at).clamp_(0, len(flat) - 1)
        ids = torch.where(inside, _unsigned(flat[source]), ids)
        at = at + count
        if number + 1 < len(flats):
            for special in layout.separators:
                ids.masked_fill_(offset == at, special)
                at = at + 1
            segments.masked_fill_(offset >= at, layout.segments[number + 1])
    ids.masked_fill_(filler, closing)
    segments.masked_fill_(filler, layout.segments[0])
    return Gathered(ids, _positions(ids, offset, layout.first_position), segments, edges)


def _positions(ids: Tensor, offset: Tensor, first: int) -> Tensor:
    """The position of each token by its offset in its input; see Layout. Filler has a first one."""
    if not first:
        return offset
    padding = (ids == first - 1).long()
    so_far = torch.cumsum(padding, 0)
    start = torch.arange(len(ids), device=ids.device) - offset
    skipped = so_far - so_far[start] + padding[start]
    return torch.where(padding.bool(), first - 1, offset - skipped + first)


def _unsigned(pieces: Tensor) -> Tensor:
    """The ids that the bits of int16 or int32 were meant as, int64."""
    bits = 0xFFFF if pieces.dtype == torch.int16 else 0xFFFFFFFF
    return pieces.long() & bits


Step = Callable[[Gathered, Int64], Tensor]
"""(inputs, their edges on the host, [E]) -> the result of a pass, fp32 [R, X]: a row for each
input, and for each that is not there."""
Finish = Callable[[Tensor, Tensor], Tensor]
"""(last hidden states [T, H] or of first tokens [R, H], edges [E]) -> the result."""


def whole(x: Tensor, weights: Linear) -> Tensor:
    """x W^T + b in one product of all rows, rounded to the weights' dtype; no update."""
    weight, bias = weights
    # A zero in the place of a bias would take another pass over the result.
    return F.linear(x.to(weight.dtype), weight, bias if len(bias) == len(weight) else None)


def step_of(
    family: Family,
    body: Body,
    shape: FixedShape,
    varlen: Varlen | None,
    finish: Finish,
    *,
    firsts: bool,
) -> Step:
    """The forward pass, and `finish` of its last hidden states.

    Args:
        family: whose forward pass it is.
        body: weights on the device.
        shape: the sizes.
        varlen: attention; None means by length.
        finish: makes the result.
        firsts: whether it wants only the first token of each input.
    """

    def step(inputs: Gathered, on_host: Int64) -> Tensor:
        ids, positions, segments, edges = inputs
        attend: Attention = attend_freely
        groups: Groups = []
        if varlen is None:
            groups = groups_between(on_host)
        else:
            # The kernel starts a block for every sequence and stretch of the longest, empty ones
            # too: only the inputs that are there, and nothing for filler, which nobody reads. The
            # longest has few values, so that each is met where rows are proven to keep their bytes.
            lengths = np.diff(on_host[: shape.rows + 1])
            count = np.count_nonzero(lengths)
            longest = min(STRETCH * -(-int(lengths.max()) // STRETCH), shape.longest)
            attend = over(varlen, edges[: count + 1], longest)
        # An input that is not there begins where the last one ends: any token does for it.
        wanted = edges[: shape.rows].clamp(max=shape.tokens - 1) if firsts else None
        hidden = family.forward(
            body, ids, positions, segments, groups, attend, wanted=wanted, product=whole
        )
        return finish(hidden, edges)

    return step


def vectors(shape: FixedShape, *, finishing: AnyFinishing) -> Finish:
    """An encoder's vectors of the inputs, fp32 [R, dim], or the weights of their tokens, [R, L]."""

    def finish(hidden_TH: Tensor, edges: Tensor) -> Tensor:
        return finishing.between(hidden_TH, edges[: shape.rows + 1], product=whole)

    return finish


def units(shape: FixedShape, *, head: Head) -> Finish:
    """A reranker's units, fp32 [R, U]."""

    def finish(states: Tensor, edges: Tensor) -> Tensor:
        if head.pooling == "cls":
            return head.logits(states)
        pooled = pool_between(states, edges[: shape.rows + 1], pooling=head.pooling)
        return head.logits(pooled)

    return finish


class HostClock:
    """Runs from when it is made until `stop`, for a device that computes while the host waits."""

    def __init__(self) -> None:
        """It runs."""
        self._began = time.perf_counter()
        self._seconds = 0.0

    def stop(self) -> None:
        """Called after the batch's last kernel was sent."""
        self._seconds = time.perf_counter() - self._began

    def wait(self) -> float:
        """Wait for the batch; the seconds in which it was computed."""
        return self._seconds


class CudaClock:
    """The same by two events in the device's queue."""

    def __init__(self) -> None:
        """It runs when the device comes to it."""
        self._events = [_event(), _event()]
        self._events[0].record()

    def stop(self) -> None:
        """Record the second event, after the batch's last kernel was sent."""
        self._events[1].record()

    def wait(self) -> float:
        """Wait for the second event and return the seconds between the two."""
        began, ended = self._events
        ended.synchronize()
        return float(began.elapsed_time(ended)) / 1000


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def clock_of(device: str) -> HostClock | CudaClock:
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
    """Times of one call of `FixedEngine.results`."""

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
    clock: HostClock | CudaClock


class FixedEngine:
    """One step, run over batches; for one thread."""

    def __init__(
        self,
        step: Step,
        shape: FixedShape,
        *,
        device: str,
        precision: str,
        resident_bytes: int = RESIDENT_BYTES,
    ) -> None:
        """Nothing is computed yet.

        Args:
            step: computes the result of a pass, [R, X].
            shape: the sizes of every pass.
            device: cpu or cuda.
            precision: of the products.
            resident_bytes: see RESIDENT_BYTES.
        """
        self.shape, self.busy = shape, Busy(0.0, 0.0)
        self.computed_seconds = 0.0
        """In which the device computed, of all calls so far."""
        self._step, self._device, self._precision = step, device, precision
        self._resident_bytes = resident_bytes
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
        clock = clock_of(self._device)
        plan = slot.plan.to(self._device, non_blocking=True)
        result = self._step(gathered(flats, plan, layout, self.shape), edges)
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
