"""Modes: a compiled or recorded step computes what the step itself does."""

import numpy as np
import pytest
import torch

from raypipe.errors import InputError
from raypipe.models.encoder import load_encoder
from raypipe.models.gpu import opening as replay
from raypipe.models.gpu.opening import FixedSettings, Replayed, compiled, in_mode
from raypipe.models.gpu.passes import Gathered, one_by_one


def inputs(seed):
    draw = torch.Generator().manual_seed(seed)
    return Gathered(*(torch.randint(0, 9, (6,), generator=draw) for _ in range(4)))


def step(given, groups):
    assert groups == []
    return (given.ids * 3 + given.positions - given.segments * given.edges).float()


def again(work):
    """In the place of a CUDA graph: memory that is written again by the same calls."""
    result = work()
    return lambda: result.copy_(work()), result


def test_a_recorded_step_reads_the_inputs_of_each_call():
    recorded = Replayed(step, again)
    for seed in range(4):
        given = inputs(seed)
        assert torch.equal(recorded(given, []), step(given, []))


def test_it_is_recorded_once_over_memory_of_its_own():
    captures = []

    def capture(work):
        captures.append(work)
        return again(work)

    recorded, given = Replayed(step, capture), inputs(1)
    kept = [tensor.clone() for tensor in given]
    first = recorded(given, [])
    second = recorded(inputs(2), [])
    assert len(captures) == 1 and first.data_ptr() == second.data_ptr()
    assert all(torch.equal(a, b) for a, b in zip(given, kept, strict=True))


def test_a_compiled_step_is_the_step():
    """`eager` runs what torch has traced, in one graph, without a compiler for C++."""
    found = compiled(step, backend="eager")
    for seed in range(3):
        assert torch.equal(found(inputs(seed), [(1, 2)]), step(inputs(seed), []))


def test_a_whole_pass_can_be_traced_and_recorded(model_of, part_of, monkeypatch):
    """All but the kernel: what is traced has one size for every batch."""
    part = part_of([0, 3, 40, 41, 41, 7, 100], 2)
    offsets = np.append(part.starts, len(part.flat))

    @torch.library.custom_op("raypipe_test::varlen", mutates_args=())
    def kernel(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        edges: torch.Tensor,
        longest: int,
    ) -> torch.Tensor:
        return one_by_one(query, key, value, edges, longest)

    @kernel.register_fake
    def _(query, key, value, edges, longest):
        return torch.empty_like(query)

    found = {}
    monkeypatch.setattr(replay, "cuda_graph", again)
    traced = []

    def backend(graph, example):
        traced.append([list(tensor.shape) for tensor in example])
        return graph

    monkeypatch.setattr(replay, "compiled", lambda own: compiled(own, backend=backend))
    for mode in replay.MODES:
        if mode == "graph":
            monkeypatch.setattr(
                replay, "in_mode", lambda own, mode, groupless, device: Replayed(own, again)
            )
            monkeypatch.setattr("raypipe.models.gpu.opening.in_mode", replay.in_mode)
        settings = FixedSettings(mode=mode, varlen=kernel)
        encoder = load_encoder(model_of(), budget_tokens=300, fixed=settings)
        assert f"{mode} passes of 300 tokens, attention of any length" in encoder.numerics
        found[mode] = encoder.encode(part.flat, offsets, side="passage")
    np.testing.assert_allclose(found["compile"], found["eager"], atol=1e-6)
    np.testing.assert_array_equal(found["graph"], found["eager"])
    assert len(traced) == 1


def test_a_mode_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="found attention by length on cpu; use eager"):
        in_mode(step, "compile", groupless=False, device="cpu")
    with pytest.raises(InputError, match="expected the device cuda, found cpu"):
        in_mode(step, "graph", groupless=True, device="cpu")
    assert in_mode(step, "eager", groupless=False, device="cpu") is step
