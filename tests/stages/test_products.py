import numpy as np
import pytest
import torch

from raypipe.engines.exact.products import NumpyProducts
from raypipe.engines.exact.search import product_error, topk_block_stream
from raypipe.errors import InputError
from raypipe.stages.products import TorchProducts

LIBRARIES = [NumpyProducts(), TorchProducts(), TorchProducts(3)]


@pytest.mark.parametrize("products", LIBRARIES, ids=["numpy", "torch", "torch of 3"])
@pytest.mark.parametrize("block_rows", [None, 100])
def test_the_library_and_its_threads_change_no_place_and_no_bit(products, block_rows):
    rng = np.random.default_rng(1)
    vectors = (rng.standard_normal((3000, 40)) / 6).astype(np.float16)
    vectors[rng.permutation(3000)[:300]] = vectors[5]
    queries = (rng.standard_normal((20, 40)) / 6).astype(np.float16)
    vectors.flags.writeable = False
    beats = []
    rows, scores = topk_block_stream(
        queries,
        [(0, vectors[:1700]), (1700, vectors[1700:])],
        depth=50,
        block_rows=block_rows,
        products=products,
        beat=lambda: beats.append(1),
    )
    exact = (queries.astype("f8") @ vectors.astype("f8").T).astype("f4")
    order = np.argsort(-exact, axis=1, kind="stable")[:, :50]
    assert np.array_equal(rows, order)
    assert np.array_equal(scores, np.take_along_axis(exact, order, 1))
    assert len(beats) >= 20 + (30 if block_rows else 1)


def test_each_thread_brings_the_memory_that_it_needs():
    vectors = np.eye(9, 4, dtype=np.float16)
    found = topk_block_stream(vectors[:2], [(0, vectors)], depth=2, products=TorchProducts(64))
    assert found[0].tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("products", LIBRARIES, ids=["numpy", "torch", "torch of 3"])
def test_values_that_are_not_finite_are_refused_by_row(products):
    vectors = np.ones((50, 3), np.float16)
    vectors[[7, 21, 33], 1] = np.nan, np.inf, -np.inf
    with pytest.raises(InputError, match="embedding row 107, 121, 133: found NaN"):
        topk_block_stream(np.ones((5, 3), np.float16), [(100, vectors)], depth=2, products=products)


@pytest.mark.parametrize("products", LIBRARIES, ids=["numpy", "torch", "torch of 3"])
def test_every_finite_value_is_widened_and_no_product_is_off_by_more_than_the_error(products):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)].reshape(-1, 2)
    out = np.empty(finite.shape, np.float32)
    rng = np.random.default_rng(0)
    spread = 10.0 ** rng.integers(-3, 4, (500, 1))
    vectors = (rng.standard_normal((500, 384)) * spread).astype("f2").astype("f4")
    queries = rng.standard_normal((30, 384)).astype("f2").astype("f4")
    found = np.empty((30, 500), np.float32)
    with products.ready():
        products.widen(finite, out)
        products.multiply(queries, vectors, found)
    assert np.array_equal(out.view(np.uint32), finite.astype(np.float32).view(np.uint32))
    exact = queries.astype("f8") @ vectors.astype("f8").T
    lengths = np.outer(*(np.linalg.norm(side.astype("f8"), axis=1) for side in (queries, vectors)))
    assert (np.abs(found - exact) <= product_error(384) * lengths).all()


def test_torchs_settings_are_put_back():
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("medium")
    try:
        with TorchProducts(3).ready():
            assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (1, "highest")
        assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (2, "medium")
    finally:
        torch.set_num_threads(before[0])
        torch.set_float32_matmul_precision(before[1])
