"""How the kernels of a pass of fixed shape reach the device: one by one, compiled, or as a graph.

All compute the same step. Which one is fastest is for a measurement to say
(jobs/benchmark.py); `eager` is the default, since it runs everywhere.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.fixed.gather import Gathered
from raypipe.models.fixed.step import Step
from raypipe.models.packed import Groups

MODES = ("eager", "compile", "graph")
WARM_UPS = 3
"""Passes before a capture, in which libraries allocate what they keep."""
Capture = Callable[[Callable[[], Tensor]], tuple[Callable[[], None], Tensor]]
"""Records what a function does: (does it again, over the same memory; its result's memory)."""


def in_mode(step: Step, mode: str, *, groupless: bool, device: str) -> Step:
    """The step in a mode.

    Args:
        step: reads and writes tensors of the same shapes every time.
        mode: one of MODES.
        groupless: whether it makes the same calls every time, without a loop over groups.
        device: cpu or cuda.

    Raises:
        InputError: the mode needs attention for sequences of any length, or CUDA.
    """
    assert mode in MODES, mode
    if mode == "eager":
        return step
    if not groupless:
        raise InputError(
            f"mode {mode}: expected attention for sequences of any length, which PyTorch has for "
            f"bf16 and fp16 on newer GPUs, found attention by length on {device}; use eager"
        )
    if mode == "compile":
        return compiled(step)
    if device != "cuda":
        raise InputError(f"mode graph: expected the device cuda, found {device}; use eager")
    return Replayed(step, cuda_graph)


def compiled(step: Step, backend: str = "inductor") -> Step:
    """The step compiled by torch, for its one shape; the first call takes a minute or so."""

    def on_tensors(*tensors: Tensor) -> Tensor:
        return step(Gathered(*tensors), [])

    compute = torch.compile(on_tensors, backend=backend, dynamic=False, fullgraph=True)
    return lambda inputs, groups: compute(*inputs)


class Replayed:
    """A step that was recorded at its first call, and from then on runs over the same memory."""

    def __init__(self, step: Step, capture: Capture) -> None:
        """Nothing is computed yet."""
        self._step, self._capture = step, capture
        self._own: Gathered | None = None

    def __call__(self, inputs: Gathered, groups: Groups) -> Tensor:
        """The result, valid until the next call."""
        if self._own is None:
            own = self._own = Gathered(*(tensor.clone() for tensor in inputs))
            self._again, self._result = self._capture(lambda: self._step(own, []))
        for kept, given in zip(self._own, inputs, strict=True):
            kept.copy_(given)
        self._again()
        return self._result


def cuda_graph(work: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """See Capture; a CUDA graph."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph.replay, result
