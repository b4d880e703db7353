"""The work between a layer's products in each way that raypipe has or might have, and a profile.

`fused` are raypipe's kernels, `plain` torch's functions, and `compiled` what torch.compile makes of
these. On a CPU the kernels are interpreted, and nothing is compiled but the graph: that shows that
the ways run and agree, and no speed.
"""

import os

import torch
import torch.nn.functional as F

from raypipe.models.gpu.opening import FixedSettings
from raypipe.models.gpu.passes import computes_plainly, found_kernels
from raypipe.models.machine.precision import DTYPES
from raypipe.models.packed import Plain, States

HALVES = ("bf16", "fp16")
ROWS_ON_CPU = 1024
"""Of a program: the interpreter's time is that of the programs, not of their rows."""
NAMED = 12
"""Kernels of a profile, the longest ones."""


class Compiled:
    """torch.compile's kernels for the same work, as `raypipe.models.packed.Between`."""

    def __init__(self, backend):
        self._sum_norm, self._gelu = (
            torch.compile(function, backend=backend, dynamic=False)
            for function in (_sum_norm, _gelu)
        )

    def sum_norm(self, x, y, norm, eps):
        return States(*self._sum_norm(x, y, *norm, eps))

    def inner(self, x, weights, product):
        weight, bias = weights
        return self._gelu(product(x, (weight, weight.new_zeros(1))), bias)


def _sum_norm(x, y, weight, bias, eps):
    wide = F.layer_norm(x.float() + y, (x.shape[1],), weight, bias, eps)
    return wide, wide.to(x.dtype)


def _gelu(x, bias):
    return F.gelu(x.float() + bias.float()).to(x.dtype)


def ways(device, precision, width, *, every):
    """The settings of a pass by way; a way that does not run here, or not rightly, is left out.

    Compiling takes half a minute for a model, so it is one of `every` way alone.
    """
    if precision not in HALVES:
        return {}
    dtype, between = DTYPES[precision], {"plain": Plain()}
    fused = found_kernels(device, dtype, width) if device == "cuda" else _interpreted()
    if fused is not None:
        between["fused"] = fused
    if every:
        compiled = Compiled("inductor" if device == "cuda" else "eager")
        if computes_plainly(compiled, device, dtype, width):
            between["compiled"] = compiled
    return {name: FixedSettings(between=way) for name, way in between.items()}


def _interpreted():
    if os.environ.get("TRITON_INTERPRET") != "1":
        return None
    from raypipe.models.gpu.kernels import Kernels

    return Kernels(ROWS_ON_CPU)


def profile_of(run, device):
    """(name, share of the device's time) of the longest kernels of one run, the longest first."""
    from torch.profiler import ProfilerActivity, profile

    activity = ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU
    with profile(activities=[activity]) as seen:
        run()
    times = [
        (e.key, e.self_device_time_total if device == "cuda" else e.self_cpu_time_total)
        for e in seen.key_averages()
    ]
    whole = sum(time for _, time in times)
    longest = sorted(times, key=lambda each: each[1], reverse=True)[:NAMED]
    return [(name, time / whole) for name, time in longest if whole and time]
