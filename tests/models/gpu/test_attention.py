"""Attention over edges is attention within each sequence; a kernel is used only if it agrees."""

import numpy as np
import pytest
import torch
from kernel_stand_in import one_by_one

from raypipe.models.gpu.passes import agrees, found_varlen, groups_between, over
from raypipe.models.packed import attend_by_length

EDGES = np.array([0, 1, 1, 4, 9, 9, 14, 20])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("window", [None, 2])
def test_it_is_attention_by_length(dtype, window):
    qkv = torch.randn(20, 3 * 32, generator=torch.Generator().manual_seed(1)).to(dtype)
    found = over(one_by_one, torch.from_numpy(EDGES), 6)(qkv, 4, [], window)
    expected = attend_by_length(qkv, 4, groups_between(EDGES), window)
    assert found.dtype == dtype and found.shape == (20, 32)
    torch.testing.assert_close(found.float(), expected.float(), atol=1e-2, rtol=0)
    assert dtype != torch.float32 or float((found - expected).abs().max()) < 1e-6


def test_groups_are_stretches_of_equal_lengths_without_the_empty():
    assert groups_between(EDGES) == [(1, 1), (1, 3), (2, 5), (1, 6)]


def test_the_edges_reach_the_kernel_as_int32_once_and_the_longest_as_it_is():
    calls = []

    def kernel(query, key, value, edges, longest):
        calls.append((edges, longest))
        return query

    edges = torch.from_numpy(EDGES)
    attend = over(kernel, edges, 77)
    for _ in range(2):
        attend(torch.zeros(20, 24), 2, [])
    assert calls[0][0] is calls[1][0]
    assert calls[0][0].dtype == torch.int32 and calls[0][0].tolist() == EDGES.tolist()
    assert [longest for _, longest in calls] == [77, 77]


def test_a_kernel_that_is_right_agrees_and_one_that_is_wrong_does_not():
    def not_there(query, key, value, edges, longest):
        raise RuntimeError("FlashAttention only supports Ampere GPUs or newer")

    def of_values(query, key, value, edges, longest):
        return value

    def over_all(query, key, value, edges, longest):
        return one_by_one(query, key, value, edges[[0, -1]], int(edges[-1]))

    def of_no_row_behind(query, key, value, edges, longest):
        if int(edges[-1]) != len(query):
            raise RuntimeError("expected the last edge at the end")
        return one_by_one(query, key, value, edges, longest)

    def nothing(query, key, value, edges, longest):
        return torch.full_like(query, torch.nan)

    def of_no_window(query, key, value, edges, longest, window):
        return one_by_one(query, key, value, edges, longest)

    assert agrees(one_by_one, "cpu", torch.bfloat16, 64)
    assert agrees(one_by_one, "cpu", torch.bfloat16, 64, 16)
    assert not agrees(of_no_window, "cpu", torch.bfloat16, 64, 16)
    for wrong in (not_there, of_values, over_all, of_no_row_behind, nothing):
        assert not agrees(wrong, "cpu", torch.bfloat16, 64)


def test_there_is_no_kernel_for_a_cpu_or_fp32():
    assert found_varlen("cpu", torch.bfloat16, 64) is None
    assert found_varlen("cuda", torch.float32, 64) is None
