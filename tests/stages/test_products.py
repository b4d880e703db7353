import numpy as np
import pytest
import torch

from raypipe.engines.exact import topk_block_stream
from raypipe.engines.exact_scores import NumpyProducts, product_error
from raypipe.errors import InputError
from raypipe.stages.products import (
    BF16_UNIT,
    Bf16Products,
    DeviceProducts,
    TorchProducts,
    coarse_products,
)

LIBRARIES = [NumpyProducts(), TorchProducts(), TorchProducts(3)]
NAMES = ["numpy", "torch", "torch of 3"]
COARSE = [Bf16Products(), Bf16Products(3)]
ON_DEVICE = DeviceProducts("cpu", values=100 * 40)
"""A pass as on a GPU, in blocks of 100 vectors of 40 dimensions."""


@pytest.mark.parametrize(
    ("products", "coarse"),
    [
        *((products, None) for products in LIBRARIES),
        *((TorchProducts(), each) for each in (*COARSE, ON_DEVICE)),
    ],
    ids=[*NAMES, "bf16 before", "bf16 of 3 before", "device before"],
)
@pytest.mark.parametrize("block_rows", [None, 100])
def test_the_library_and_its_threads_change_no_place_and_no_bit(products, coarse, block_rows):
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
        coarse=coarse,
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


@pytest.mark.parametrize("products", [*LIBRARIES, ON_DEVICE], ids=[*NAMES, "device"])
def test_values_that_are_not_finite_are_refused_by_row(products):
    vectors = np.ones((50, 3), np.float16)
    vectors[[7, 21, 33], 1] = np.nan, np.inf, -np.inf
    with pytest.raises(InputError, match="embedding row 107, 121, 133: found NaN"):
        topk_block_stream(np.ones((5, 3), np.float16), [(100, vectors)], depth=2, products=products)


@pytest.mark.parametrize("products", [*LIBRARIES, *COARSE], ids=[*NAMES, "bf16", "bf16 of 3"])
def test_every_finite_value_is_widened_and_no_product_is_off_by_more_than_the_error(products):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)].reshape(-1, 2)
    out = np.empty(finite.shape, np.float32)
    rng = np.random.default_rng(0)
    spread = 10.0 ** rng.integers(-3, 4, (500, 1))
    vectors = (rng.standard_normal((500, 384)) * spread).astype("f2").astype("f4")
    vectors[250:] = np.abs(vectors[250:])  # large products, whose own rounding counts
    queries = rng.standard_normal((30, 384)).astype("f2").astype("f4")
    queries[15:] = np.abs(queries[15:])
    found, moved = np.empty((30, 500), np.float32), np.empty(500)
    with products.ready():
        products.widen(finite, out)
        multiply = products.multiply(queries)
        for some in (slice(0, 500), slice(100, 103), slice(250, 500)):
            part = np.empty((30, some.stop - some.start), np.float32)
            moved[some] = multiply(vectors[some], part)
            found[:, some] = part
    assert np.array_equal(out.view(np.uint32), finite.astype(np.float32).view(np.uint32))
    exact = queries.astype("f8") @ vectors.astype("f8").T
    of_queries, of_vectors = (
        np.linalg.norm(side.astype("f8"), axis=1) for side in (queries, vectors)
    )
    for one in range(500):  # each by itself, so that the longest does not hide the others
        with products.ready():
            alone = products.multiply(queries)(vectors[one : one + 1], np.empty((30, 1), "f4"))
        assert 0 <= alone <= moved[one]
        allowed = products.error(queries, of_queries, longest=of_vectors[one], moved=alone)
        off = np.abs(found[:, one] - exact[:, one])
        assert (off <= allowed + products.rounding * np.abs(found[:, one])).all()


def test_the_errors_are_their_equations():
    queries = np.array([[1 + 2.0**-8, 0.0], [3.0, 4.0]], np.float32)  # bf16 loses 2^-8 of the first
    norms, given = np.linalg.norm(queries.astype("f8"), axis=1), {"longest": 2.0, "moved": 0.25}
    assert product_error(2) == pytest.approx(6 * 2.0**-24, rel=1e-6)
    for products in (NumpyProducts(), TorchProducts()):
        assert (
            products.error(queries, norms, **given).tolist()
            == (product_error(2) * 2 * norms).tolist()
        )
    lost = np.array([2.0**-8, 0.0])
    in_sums = 2 * product_error(2) * (norms + lost) * 2.25
    expected = lost * 2.25 + norms * 0.25 + in_sums
    assert Bf16Products().error(queries, norms, **given) == pytest.approx(expected, rel=2e-6)
    assert (Bf16Products().error(queries, norms, **given) >= expected).all()
    assert Bf16Products().rounding == 2.0**-8


def test_bf16_tells_how_far_it_moved_the_vectors():
    vectors = np.array([[1 + 2.0**-8, 0], [3 + 2.0**-7, 4 + 2.0**-8], [2, 2]], np.float32)
    multiply = Bf16Products().multiply(np.eye(2, dtype=np.float32))
    for rows, moved in (([2], 0), ([0, 2], 2.0**-8), ([0, 1, 2], 2.0**-8 * 5**0.5)):
        out = np.empty((2, len(rows)), np.float32)
        assert multiply(vectors[rows], out) == pytest.approx(moved, rel=2e-6)
        assert out.T.tolist() == torch.from_numpy(vectors[rows]).bfloat16().tolist()


def test_bf16_is_rounded_by_less_than_its_unit():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)].astype(np.float32)
    rounded = torch.from_numpy(finite).bfloat16().double().numpy()
    assert (np.abs(rounded - finite) <= BF16_UNIT * np.abs(finite)).all()
    assert (np.abs(rounded - finite) > 0.99 * BF16_UNIT * np.abs(finite)).any()


def test_a_coarse_pass_is_only_where_the_cpu_multiplies_bf16(monkeypatch):
    for has, kind in ((("fp32",), type(None)), (("fp32", "bf16"), Bf16Products)):
        monkeypatch.setattr("raypipe.models.machine.precision.able", lambda device, has=has: has)
        found = coarse_products("cpu", 3)
        assert type(found) is kind
        assert found is None or found.threads == 3


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
