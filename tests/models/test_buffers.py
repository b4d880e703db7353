"""Results in memory that is used again are those of `linear`, and none is overwritten too early."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from raypipe.models.machine.device import Buffers
from raypipe.models.packed import gelu, linear, plus

DRAW = torch.Generator().manual_seed(5)


def layer(inner, outer, dtype=torch.float32):
    weight = torch.randn(outer, inner, generator=DRAW) * inner**-0.5
    return weight.to(dtype), torch.randn(outer, generator=DRAW).to(dtype)


def rows_of(count, width):
    return torch.randn(count, width, generator=DRAW)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 255, 256, 600])
@torch.inference_mode()
def test_it_is_linear_bit_by_bit_whatever_was_computed_before(dtype, count):
    product = Buffers()
    for inner, outer in ((64, 192), (64, 64), (64, 256), (256, 64)):
        weights = layer(inner, outer, dtype)
        product(rows_of(700, inner), weights)
        x = rows_of(count, inner)
        found = product(x, weights)
        assert found.shape == (count, outer) and found.dtype == dtype
        assert torch.equal(found, linear(x, weights))


@torch.inference_mode()
def test_a_low_rank_update_is_added():
    weights = (*layer(32, 48), rows_of(4, 32), rows_of(48, 4))
    x = rows_of(20, 32)
    assert torch.equal(Buffers()(x, weights), linear(x, weights))


@pytest.mark.parametrize("inner", [32, 64, 192, 256])
@torch.inference_mode()
def test_no_result_is_written_over_its_own_input(inner):
    """Whatever the inner size, and so which of the two memories an inner layer has."""
    product, x = Buffers(), rows_of(40, 64)
    up, down = layer(64, inner), layer(inner, 64)
    for _ in range(2):
        middle = product(x, up)
        kept = middle.clone()
        found = product(middle, down)
        assert torch.equal(found, linear(kept, down))
        assert torch.equal(middle, kept)


@torch.inference_mode()
def test_memory_is_taken_once():
    product, weights = Buffers(), layer(64, 256)
    places = {product(rows_of(n, 64), weights).data_ptr() for n in (512, 300, 512, 1)}
    assert len(places) == 1
    bigger = product(rows_of(513, 64), weights)
    assert bigger.data_ptr() == product(rows_of(2, 64), weights).data_ptr()


def test_threads_do_not_write_over_each_other():
    product, weights = Buffers(), layer(64, 256)
    xs = [rows_of(200, 64) for _ in range(8)]

    def work(x):
        with torch.inference_mode():
            return all(torch.equal(product(x, weights), linear(x, weights)) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, xs))


def test_with_gradients_nothing_is_overwritten_and_without_them_sums_are_the_same():
    x, y = rows_of(9, 8), rows_of(9, 8)
    kept = x.clone()
    assert torch.equal(gelu(x), torch.nn.functional.gelu(kept)) and torch.equal(x, kept)
    assert torch.equal(plus(x, y), kept + y) and torch.equal(x, kept)
    with torch.inference_mode():
        expected = gelu(kept.clone()), plus(kept.clone(), y)
        assert torch.equal(expected[0], torch.nn.functional.gelu(kept))
        assert torch.equal(expected[1], kept + y)
        halves = kept.to(torch.bfloat16)
        # The residual stream stays fp32, so a sum of both is never rounded to bf16.
        assert plus(halves, y).dtype == torch.float32
        assert torch.equal(plus(halves, y), halves + y)
