"""Passes of fixed shape on a device: inputs, the kernel of attention, precisions, idle time.

The vectors and scores of the other tests here come from such passes on CUDA; on the CPU these tests
ask for them, with a stand-in for the kernel.
"""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from raypipe.models.gpu.passes import (
    FixedShape,
    computes_plainly,
    found_kernels,
    found_varlen,
    gathered,
    on_device,
    over,
    write_plan,
)
from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.machine.precision import able
from raypipe.text.inputs import Layout, TextSlice, make_inputs

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
FAR = {"bf16": 2e-2, "fp16": 5e-3}
"""Of vectors of length 1 and of probabilities, from fp32."""


def test_inputs_made_on_the_device_are_the_hosts(device):
    rng, layout = np.random.default_rng(1), Layout(101, (102,), 102, (0, 1, 2))
    texts = []
    for _ in layout.segments:
        flat = rng.integers(0, 1 << 16, 5000).astype(np.uint16)
        texts.append(TextSlice(flat, rng.integers(0, 4900, 60), rng.integers(0, 90, 60)))
    expected, shape = make_inputs(texts, layout), FixedShape(16384, 512, 3)
    plan = np.empty(shape.plan_size, np.int64)
    write_plan(plan, texts, layout, shape)
    flats = [on_device(text.flat, device) for text in texts]
    found = gathered(flats, torch.from_numpy(plan).to(device), layout, shape)
    total = len(expected.ids)
    for name in ("ids", "positions", "segments"):
        own = getattr(found, name)
        assert own.device.type == device
        np.testing.assert_array_equal(own[:total].cpu().numpy(), getattr(expected, name))


@pytest.mark.gpu
@pytest.mark.parametrize("head_size", [32, 64])
@pytest.mark.parametrize("name", HALVES)
def test_the_kernel_of_attention_is_found_and_right_at_every_length(
    name, head_size, one_by_one, tell
):
    varlen = found_varlen("cuda", HALVES[name], head_size)
    if varlen is None:
        tell(f"torch {torch.__version__} has no kernel here; attention by length is used")
        pytest.skip("no kernel for sequences of any length on this GPU")
    lengths = np.array([*range(513), 0, 512])
    edges = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
    draw = torch.Generator().manual_seed(1)
    qkv = torch.randn(int(edges[-1]), 3 * 4 * head_size, generator=draw).cuda().to(HALVES[name])
    found = over(varlen, edges.cuda(), 512)(qkv, 4, []).float()
    expected = over(one_by_one, edges, 512)(qkv.cpu().float(), 4, [])
    far = float((found.cpu() - expected).abs().max())
    tell(f"largest difference {far:.1e}")
    assert far < FAR[name]


@pytest.mark.gpu
@pytest.mark.parametrize("width", [64, 384, 768, 1024])
@pytest.mark.parametrize("name", HALVES)
def test_the_fused_kernels_are_found_and_right(name, width, tell):
    if find_spec("triton") is None:
        tell(f"torch {torch.__version__} came without Triton; torch's own functions are used")
        pytest.skip("no Triton here")
    assert found_kernels("cuda", HALVES[name], width) is not None, "the trial failed"
    from raypipe.models.gpu.kernels import Kernels

    assert all(computes_plainly(Kernels(rows), "cuda", HALVES[name], width) for rows in (2, 4))


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("kind", ["encoder", "mono", "duo"])
def test_reduced_precision_is_near_the_cpus_fp32(
    device, settings, shape, models, random_bert, threads, tell, precision, kind
):
    if precision not in able(device):
        pytest.skip(f"this {device} does not multiply in {precision}")
    rng, number = np.random.default_rng(2), 40 if device == "cpu" else 300
    model = models(shape, kind, **({} if kind == "encoder" else {"score": "probability"}))
    parts = []
    for seed, longest in enumerate(
        (250,) if kind == "encoder" else (30, 200, 200)[: 2 + (kind == "duo")]
    ):
        flat, offsets = random_bert.pieces_of(rng.integers(0, longest, number), shape, seed=seed)
        parts.append(TextSlice(flat, offsets[:-1], np.diff(offsets)))

    def computed(load, model, **more):
        engine = load(model, **more)
        if kind != "encoder":
            return engine.score(parts[0], parts[1:]), engine
        offsets = np.append(parts[0].starts, len(parts[0].flat))
        return engine.encode(parts[0].flat, offsets, side="passage"), engine

    load = load_encoder if kind == "encoder" else load_scorer
    expected, _ = computed(load, model, threads=threads)
    found, engine = computed(load, model.in_precision(precision), device=device, fixed=settings)
    gap = found - expected
    far = np.linalg.norm(gap, axis=1).max() if kind == "encoder" else np.abs(gap).max()
    first, second = np.triu_indices(number, 1)
    if kind != "encoder":
        apart = np.abs(expected[first] - expected[second]) > 2 * FAR[precision]
        same = np.sign(found[first] - found[second]) == np.sign(expected[first] - expected[second])
        tell(f"{same.mean():.4f} of pairs in the same order; {engine.numerics}")
        assert same[apart].all() or far > FAR[precision]
    tell(f"largest difference {far:.1e}")
    # Random weights of 12 layers are harsher than trained ones: four times the tolerance there.
    assert far < FAR[precision] * (4 if shape.layers > 3 else 2)


def test_the_device_is_seldom_idle(device, settings, shape, models, random_bert, tell):
    """The share is told; it is a figure of the machine, and no promise."""
    model, rng = models(shape), np.random.default_rng(3)
    counts = rng.normal(71, 28, 60 if device == "cpu" else 20_000).clip(5, 254).astype(int)
    flat, offsets = random_bert.pieces_of(counts, shape, seed=1)
    encoder = load_encoder(model, device=device, fixed=settings)
    for _ in range(2):
        encoder.encode(flat, offsets, side="passage")
    busy = encoder.engine.busy
    tell(f"idle {busy.idle_share:.1%} of {busy.seconds:.3f} s")
    assert 0 < busy.computing <= busy.seconds * 1.01
    assert busy.idle_share < 0.5
