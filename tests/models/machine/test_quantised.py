"""int8: values by hand and by brute force, one value for a row, and what is not finite stays so."""

import json
import shutil

import numpy as np
import pytest
import tiny
import torch

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_scorer
from raypipe.models.machine import precision
from raypipe.models.machine.device import Buffers, ProductShape, Settled, settled
from raypipe.models.machine.precision import TILE_ROWS, int8_linear
from raypipe.models.packed import linear
from raypipe.text.inputs import TextSlice

VNNI = {"avx512_vnni": True}


@pytest.fixture(autouse=True)
def exact_products(monkeypatch):
    """On CPUs whose products of integers overflow, slow ones stand in."""
    if not precision.exact():
        monkeypatch.setattr(precision, "_products", lambda x, w: (x.int() @ w.int()).int())
        precision.exact.cache_clear()
    yield
    monkeypatch.undo()
    precision.exact.cache_clear()


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_a_product_by_hand():
    weights = precision.quantised((torch.tensor([[1.0, -2.0], [0.5, 0.1]]), torch.tensor([3.0, 0])))
    # rows of weights: 64 (63.5) and -127 of 2/127; 127 and 25 (25.4) of 0.5/127
    assert weights[0].tolist() == [[64, -127], [127, 25]]
    assert weights[2].tolist() == pytest.approx([2 / 127, 0.5 / 127])
    # the input is 127 and -51 (-50.8) of 10/127
    found = linear(torch.tensor([[10.0, -4.0]]), weights)
    first = (127 * 64 + 51 * 127) * (10 / 127) * (2 / 127) + 3
    second = (127 * 127 - 51 * 25) * (10 / 127) * (0.5 / 127)
    assert found.dtype == torch.float32 and found[0].tolist() == pytest.approx([first, second])


@pytest.mark.parametrize("rows", [1, 2, 300])
def test_a_layer_of_one_input_is_computed_too(rows):
    weights = precision.quantised((torch.tensor([[3.0], [-5.0]]), torch.tensor([0.0, 1.0])))
    x = drawn(rows, 1)
    assert torch.allclose(int8_linear(x, weights), torch.cat([3 * x, 1 - 5 * x], 1), rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 15, TILE_ROWS, TILE_ROWS + 1, 3 * TILE_ROWS - 1])
def test_products_are_those_of_the_integers_with_their_scales(rows):
    x, weight, bias = drawn(rows, 40), drawn(24, 40, seed=1), drawn(24, seed=2)
    integers, _, scales = weights = precision.quantised((weight, bias))
    most = x.abs().amax(1, keepdim=True)
    rounded = (x * (127 / most)).round()
    assert rounded.abs().max() == integers.abs().max() == 127
    sums = rounded.long() @ integers.long().T
    expected = sums.double() * (most.double() / 127) * scales + bias
    assert torch.allclose(int8_linear(x, weights).double(), expected, rtol=1e-6, atol=1e-6)
    # half a step of each factor, at most
    step = most / 127 * weight.abs().sum(1) / 2 + scales / 2 * x.abs().sum(1, keepdim=True)
    assert ((int8_linear(x, weights) - (x @ weight.T + bias)).abs() <= step * 1.01).all()


def test_a_row_has_the_same_bytes_alone_and_among_others():
    x, weights = drawn(700, 64), precision.quantised((drawn(48, 64, seed=1), drawn(48, seed=2)))
    together, product = linear(x, weights), Buffers()
    for row in (0, 255, 256, 699):
        assert torch.equal(linear(x[row : row + 1], weights)[0], together[row])
    assert torch.equal(product(x.flip(0), weights).flip(0), together)
    shapes = [ProductShape(64, 48, torch.int8)]
    assert settled(shapes, device="cpu", threads=2, rows=600) == Settled(2, True)


def test_a_product_whose_rows_mix_is_found_in_int8_too():
    def product(x, weights):
        return int8_linear(x, weights) + (x.abs().amax() if len(x) > 40 else 0.0)

    shapes = [ProductShape(8, 16, torch.int8)]
    found = settled(shapes, device="cpu", threads=1, rows=300, product=product)
    assert found == Settled(1, False)


def test_rows_of_zeros_give_the_bias_and_tiny_ones_nearly():
    bias = drawn(5, seed=2)
    weights = precision.quantised((drawn(5, 33, seed=1), bias))
    x = torch.stack([torch.zeros(33), torch.full((33,), 1e-44), torch.full((33,), -1e-35)])
    found = int8_linear(x, weights)
    assert torch.equal(found[0], bias) and torch.equal(found[1], bias)
    assert torch.allclose(found[2], bias)


def test_an_output_without_weights_is_its_bias():
    weights = precision.quantised((torch.zeros(2, 3), torch.tensor([1.0, -1.0])))
    assert int8_linear(drawn(4, 3), weights).tolist() == [[1.0, -1.0]] * 4


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_a_row_that_is_not_finite_stays_so_and_leaves_others_alone(odd):
    weights = precision.quantised((drawn(6, 20, seed=1), drawn(6, seed=2)))
    x = drawn(3, 20)
    expected = int8_linear(x, weights)
    x[1, 7] = odd
    found = int8_linear(x, weights)
    assert not found[1].isfinite().any()
    assert torch.equal(found[[0, 2]], expected[[0, 2]])


def test_only_a_cpu_whose_products_have_no_error_offers_it(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: VNNI)
    assert precision.able("cpu") == ("fp32", "int8")
    products = precision._products

    def saturating(x, w):
        """As older instructions: x without a sign, and pairs of products added in 16 bits."""
        pairs = ((x.long() + 128)[:, :, None] * w.long()[None]).unflatten(1, (-1, 2)).sum(2)
        return (pairs.clamp(-(2**15), 2**15 - 1).sum(1) - 128 * w.long().sum(0)).int()

    def limited(x, w):
        """Only sums of the largest integers, all of one sign, come near 2^21."""
        return (x.int() @ w.int()).clamp(max=2**21).int()

    for wrong in (saturating, limited):
        monkeypatch.setattr(precision, "_products", wrong)
        precision.exact.cache_clear()
        assert precision.able("cpu") == ("fp32",)
    monkeypatch.setattr(precision, "_products", products)
    monkeypatch.delattr(torch, "_int_mm")
    precision.exact.cache_clear()
    assert precision.able("cpu") == ("fp32",)


@pytest.mark.parametrize("feature", ["amx_int8", "avx512_vnni", "avx_vnni"])
def test_fastest_is_the_first_that_the_cpu_computes(monkeypatch, feature):
    for has, expected in (
        ({feature: True, "avx512_bf16": True}, "int8+bf16"),
        ({feature: True}, "int8"),
        ({feature: False, "avx512_bf16": True}, "bf16"),
        ({feature: True, "avx512_bf16": True, "cpu_name": "AMD EPYC"}, "int8+bf16"),
        ({feature: True, "avx512_bf16": True, "cpu_name": "Intel Xeon"}, "int8"),
        ({"avx512_bf16": True, "cpu_name": "Intel Xeon"}, "fp32"),
        ({"avx512_bf16": True, "amx_bf16": True, "cpu_name": "Intel Xeon"}, "bf16"),
        ({"avx512_fp16": True}, "fp32"),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda has=has: has)
        assert precision.resolved("fastest", "cpu") == expected
        assert precision.resolved("auto", "cpu") == "fp32"
    assert precision.resolved("fastest", "cuda", (9, 0)) == "bf16"
    assert precision.resolved("fastest", "cuda", (7, 5)) == "fp16"
    assert precision.resolved("fp16", "cpu") == "fp16"


def test_a_gpu_does_not_offer_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert precision.able("cuda") == ("fp32", "tf32", "bf16", "fp16")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (6, 1))
    assert precision.able("cuda") == ("fp32",)


@pytest.mark.parametrize("kind", ["mono", "duo"])
def test_scores_are_near_and_the_same_in_batches_of_any_size(tmp_path, kind):
    model = resolve_model(str(tiny.make_tiny_reranker(tmp_path / kind, kind=kind)))
    lengths = np.array([*range(1, 40), 100, 200])
    begins = np.cumsum(lengths) - lengths
    flat = np.random.default_rng(3).integers(5, 60, lengths.sum()).astype(np.uint16)
    query = TextSlice(flat, begins, np.minimum(lengths, 4))
    passages = [TextSlice(flat, begins, lengths)] * model.reranker.num_passages
    whole = load_scorer(model).score(query, passages)
    scorer = load_scorer(model.in_precision("int8"))
    found = scorer.score(query, passages)
    assert 0 < np.abs(found - whole).max() < 5e-2
    assert scorer.numerics.endswith("int8")
    assert scorer.score(query, passages, budget_tokens=1).tobytes() == found.tobytes()
    assert {w.dtype for w, *_ in scorer._forward._body.linears} == {torch.int8}


def test_the_probe_of_neighbours_computes_in_integers():
    seen = []

    def product(x, weights):
        seen.append((x.dtype, weights[0].dtype, len(weights)))
        return linear(x, weights)

    assert settled(
        [ProductShape(8, 16, torch.int8)], device="cpu", threads=1, rows=64, product=product
    )
    assert set(seen) == {(torch.float32, torch.int8, 3)}


def test_only_rerankers_take_it(tiny_model, tiny_mono, tmp_path):
    encoder, mono = resolve_model(str(tiny_model)), resolve_model(str(tiny_mono))
    for word, expected in (("int8", "fp32"), ("int8+bf16", "bf16")):
        assert mono.in_precision(word).precision == "int8"
        assert encoder.in_precision(word).precision == expected
    for model, kind in ((tiny_model, "an encoder"), (tiny_mono, "a reranker")):
        folder = shutil.copytree(model, tmp_path / kind)
        body = json.loads((folder / "raypipe.json").read_text()) | {"precision": "int8"}
        (folder / "raypipe.json").write_text(json.dumps(body))
        if kind == "a reranker":
            own = resolve_model(str(folder))
            assert own.precision == own.in_precision("fp32").precision == "int8"
        else:
            with pytest.raises(InputError, match="an encoder: precision: int8: expected a rerank"):
                resolve_model(str(folder))


def test_both_parts_of_a_precision_are_needed(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: VNNI)
    precision.refuse_unable("int8", "cpu")
    with pytest.raises(InputError, match=r"precision: int8\+bf16: expected one of fp32, int8, in"):
        precision.refuse_unable("int8+bf16", "cpu")
