"""The fused kernels compute what torch's functions do, in Triton's interpreter on a CPU.

The interpreter cuts off the bits that bf16 lacks, where a GPU rounds to the nearest.
"""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from raypipe.models.gpu.opening import FixedSettings
from raypipe.models.gpu.passes import computes_plainly, found_kernels, whole
from raypipe.models.load import load_scorer
from raypipe.models.packed import Plain, States

pytestmark = pytest.mark.slow
HALVES = [torch.bfloat16, torch.float16]
EPS = 1e-12


@pytest.fixture
def kernels_of():
    """A function that gives the kernels, interpreted, with so many rows for a program."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("a GPU is here: TRITON_INTERPRET=1 interprets the kernels all the same")
    pytest.importorskip("triton")
    from raypipe.models.gpu.kernels import Kernels

    return Kernels


def random(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize(("rows", "width"), [(1, 16), (9, 100), (5, 1024)])
@pytest.mark.parametrize("together", [1, 8])
def test_sum_and_normalisation_are_those_in_float64(kernels_of, dtype, rows, width, together):
    x, y = random(rows, width).to(dtype), 3 * random(rows, width, seed=1)
    weight, bias = random(width, seed=2), random(width, seed=3)
    found = kernels_of(together).sum_norm(x, y, (weight, bias), EPS)
    total = x.double() + y.double()
    mean, variance = total.mean(1, keepdim=True), total.var(1, keepdim=True, correction=0)
    expected = (total - mean) / (variance + EPS).sqrt() * weight.double() + bias.double()
    assert found.wide.dtype == torch.float32 and found.narrow.dtype == dtype
    torch.testing.assert_close(found.wide.double(), expected, atol=5e-6, rtol=2e-6)
    if dtype == torch.bfloat16:
        torch.testing.assert_close(found.narrow.float(), found.wide, atol=1e-38, rtol=2.0**-7)
    else:
        assert torch.equal(found.narrow, found.wide.to(dtype))


def test_a_normalisation_by_hand(kernels_of):
    """1, 3 and 0, 0 more: mean 2 and deviation 1; a row of one value has only its bias left."""
    x, y = torch.tensor([[1.0, 1.0], [5.0, 5.0]]), torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    norm = torch.tensor([2.0, 3.0]), torch.tensor([10.0, 20.0])
    found = kernels_of().sum_norm(x, y, norm, 0.25)
    by_hand = [[10 - 2 / 1.25**0.5, 20 + 3 / 1.25**0.5], [10, 20]]
    torch.testing.assert_close(found.wide, torch.tensor(by_hand))


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize("outs", [16, 200, 1024, 3000])
@pytest.mark.parametrize("together", [1, 8])
def test_bias_and_gelu_are_those_of_the_unbiased_product(kernels_of, dtype, outs, together):
    x, weight, bias = random(5, 32), random(outs, 32, seed=1) / 4, random(outs, seed=2)
    weights = weight.to(dtype), bias.to(dtype)
    found = kernels_of(together).inner(x.to(dtype), weights, whole)
    unbiased = (x.to(dtype) @ weights[0].T).double() + weights[1].double()
    expected = unbiased / 2 * (1 + torch.erf(unbiased / 2**0.5))
    assert found.dtype == dtype and found.shape == (5, outs)
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=unit)


def test_gelu_at_its_edges(kernels_of):
    """Far below 0 it is 0, far above its input, and a half of what erf says at 1."""
    x = torch.tensor([[-30.0, 0.0, 1.0, 60.0] * 4]).bfloat16()
    same = torch.eye(16).bfloat16(), torch.zeros(16).bfloat16()
    found = kernels_of().inner(x, same, whole)[0, :4].tolist()
    assert found == pytest.approx([0.0, 0.0, 0.841344746, 60.0], rel=4e-3, abs=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("together", [1, 8])
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_rows_bytes_do_not_know_the_rows_beside_it(kernels_of, dtype, together):
    """Filler may hold anything: numbers that are not finite, or other rows."""
    kernels = kernels_of(together)
    x, y, norm = random(14, 96).to(dtype), random(14, 96, seed=1), (random(96), random(96, seed=2))
    up = random(200, 96, seed=3).to(dtype), random(200, seed=4).to(dtype)

    def computed(rows):
        states = kernels.sum_norm(x[rows], y[rows], norm, EPS)
        inner = kernels.inner(states.narrow, up, lambda given, weights: given @ weights[0].T)
        return [each.view(torch.uint8) for each in (*states, inner)]

    every = torch.arange(14)
    own = every[3:10]
    expected = computed(own)
    x[:3], y[10:], x[12] = float("nan"), float("inf"), float("-inf")
    for found, alone in zip(computed(every), expected, strict=True):
        assert torch.equal(found[own], alone)


class Wrong(Plain):
    """A stand-in whose results differ in one way."""

    def __init__(self, sum_norm=None, inner=None):
        self._sum_norm, self._inner = sum_norm, inner

    def sum_norm(self, *given):
        states = super().sum_norm(*given)
        states = States(states.wide, states.wide.to(given[0].dtype))
        return self._sum_norm(states) if self._sum_norm else states

    def inner(self, x, weights, product):
        unbiased = product(x, (weights[0], weights[1][:0])).float()
        activated = torch.nn.functional.gelu(unbiased + weights[1].float()).to(x.dtype)
        return self._inner(activated) if self._inner else activated


def raises(x):
    raise AssertionError("no C compiler")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_kernels_that_are_right_pass_the_trial_and_others_do_not(kernels_of, dtype):
    assert computes_plainly(kernels_of(16), "cpu", dtype, 100)
    assert computes_plainly(Wrong(), "cpu", dtype, 64)
    of_all = Wrong(lambda s: States(s.wide + 0 * s.wide.sum(), s.narrow))
    off = Wrong(lambda s: States(s.wide + 1e-3, (s.wide + 1e-3).to(dtype)))
    unequal = Wrong(lambda s: States(s.wide, s.narrow * 1.03))
    for wrong in (of_all, off, unequal, Wrong(inner=lambda x: x * 1.1), Wrong(inner=raises)):
        assert not computes_plainly(wrong, "cpu", dtype, 64)


COMPILE = """
import sys
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from raypipe.models.gpu import kernels

def compiled(kernel, half, arguments, sizes, capability):
    names = [*kernel.signature.parameters]
    types = [each.replace("half", half) for each in arguments]
    signature = dict(zip(names, types + ["constexpr"] * len(sizes)))
    constants = {(len(types) + number,): size for number, size in enumerate(sizes)}
    aligned = {(n,): [["tt.divisibility", 16]] for n, t in enumerate(types) if t != "fp32"}
    source = ASTSource(kernel, signature, constexprs=constants, attrs=aligned)
    made = compile(source, GPUTarget("cuda", capability, 32), {"num_warps": 4})
    assert made.asm["cubin"]
    print(made.asm["ptx"])

half, capability = sys.argv[1], int(sys.argv[2])
arguments = ["*half", *["*fp32"] * 4, "*half", "i32", "i32", "fp32"]
compiled(kernels._sum_norm, half, arguments, (1, 1024), capability)
compiled(kernels._gelu, half, ["*half", "*half", "i32", "i32"], (1, 1024), capability)
"""


@pytest.mark.parametrize(("half", "capability"), [("bf16", 90), ("fp16", 75)])
def test_they_compile_for_gpus_with_wide_loads_and_values_rounded_to_the_nearest(
    half, capability, tmp_path
):
    """Triton brings NVIDIA's assembler, so no GPU is needed."""
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", COMPILE, half, str(capability)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ld.global.v4.b32" in done.stdout and "st.global.v4.b32" in done.stdout
    rounds = set(re.findall(r"cvt\.(\w\w)\.(?:bf16|f16)\w*\.f32", done.stdout))
    assert rounds == {"rn"}


def test_they_are_for_half_precisions_on_cuda_alone():
    assert found_kernels("cpu", torch.bfloat16, 64) is None
    assert found_kernels("cuda", torch.float32, 64) is None


def test_a_whole_pass_with_them_is_near_the_plain_ones_and_says_so(kernels_of, model_of, part_of):
    part, scores, numerics = part_of([3, 40, 17, 256, 1], 1), [], []
    model = model_of("mono", score="raw", units=1).in_precision("fp16")
    for between in (Plain(), kernels_of(1024)):
        scorer = load_scorer(model, budget_tokens=512, fixed=FixedSettings(between=between))
        scores.append(scorer.score(part, [part]))
        numerics.append(scorer.numerics)
    assert [", fused" in each for each in numerics] == [False, True]
    assert not any("unproven" in each for each in numerics)
    assert scores[0].std() > 0.2
    assert 0 < np.abs(scores[1] - scores[0]).max() < 2e-2
