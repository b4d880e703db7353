"""Products in less than fp32: the same layout, heads and pooling, and numbers that are near."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from scipy.stats import kendalltau

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.folder.settings import PretrainedConventions
from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.machine import precision
from raypipe.models.machine.device import settle
from raypipe.models.machine.precision import able, auto, refuse_unable, set_products
from raypipe.models.packed import TILE_ROWS, linear
from raypipe.text.inputs import TextSlice

DRAW = np.random.default_rng(3)
LENGTHS = [*range(1, 40), 60, 61, 100, 200]
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64)
FLAT = DRAW.integers(5, 60, OFFSETS[-1]).astype(np.uint16)


@pytest.mark.parametrize("reduced", ["bf16", "fp16"])
def test_vectors_are_near_those_of_fp32_on_every_length(tiny_model, reduced):
    model = resolve_model(str(tiny_model))
    whole = load_encoder(model).encode(FLAT, OFFSETS, side="passage")
    found = load_encoder(model.in_precision(reduced)).encode(FLAT, OFFSETS, side="passage")
    assert found.dtype == np.float32
    assert 0 < np.abs(found - whole).max() < 2e-2 * np.abs(whole).max()


@pytest.mark.parametrize("kind", ["mono", "duo"])
@pytest.mark.parametrize("reduced", ["bf16", "fp16"])
def test_scores_are_near_those_of_fp32_and_in_nearly_the_same_order(tmp_path, kind, reduced):
    model = resolve_model(str(tiny.make_tiny_reranker(tmp_path / kind, kind=kind)))
    part = TextSlice(FLAT, OFFSETS[:-1], np.diff(OFFSETS))
    query = TextSlice(FLAT, OFFSETS[:-1], np.minimum(np.diff(OFFSETS), 4))
    passages = [part] * model.reranker.num_passages
    whole = load_scorer(model).score(query, passages)
    found = load_scorer(model.in_precision(reduced)).score(query, passages)
    assert 0 < np.abs(found - whole).max() < 2e-2
    assert kendalltau(found, whole).statistic > 0.95


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, TILE_ROWS["cpu"], TILE_ROWS["cpu"] + 1])
def test_a_product_is_that_of_the_rounded_rows(rows, dtype):
    """Small integers are exact in every dtype."""
    draw = torch.Generator().manual_seed(rows)
    x, w, b = (
        torch.randint(-3, 4, shape, generator=draw).float() for shape in ((rows, 5), (4, 5), (4,))
    )
    found = linear(x, (w.to(dtype), b.to(dtype)))
    assert found.dtype == dtype and torch.equal(found.float(), x @ w.T + b)


def test_weights_of_products_alone_are_reduced(tiny_model):
    model = resolve_model(str(tiny_model)).in_precision("bf16")
    body = load_encoder(model)._forward._body
    assert {w.dtype for layer in body.linears for w in layer} == {torch.bfloat16}
    kept = [body.words, body.positions, body.segments, *body.norm]
    kept += [w for each in body.layers for w in (*each.norm_attention, *each.norm_output)]
    assert {w.dtype for w in kept} == {torch.float32}


def test_a_model_that_fixes_its_precision_keeps_it(tmp_path):
    own = resolve_model(str(tiny.make_tiny_bert(tmp_path / "own", precision="fp16")))
    assert own.precision == own.in_precision("bf16").precision == "fp16"
    free = resolve_model(str(tiny.make_tiny_bert(tmp_path / "free")))
    assert (free.precision, free.in_precision("bf16").precision) == ("fp32", "bf16")
    start = replace(free, conventions=PretrainedConventions(total_limit=512))
    assert start.precision == start.in_precision("bf16").precision == "fp32"
    assert "fp16" in load_encoder(own).numerics and "fp32" in load_encoder(free).numerics
    with pytest.raises(
        InputError, match="precision: expected fp32, tf32, bf16, fp16, int8 or null"
    ):
        resolve_model(str(tiny.make_tiny_bert(tmp_path / "odd", precision="fp8")))


def test_a_precision_that_is_not_given_is_fp32_in_the_fingerprint(tiny_model):
    model = resolve_model(str(tiny_model))
    plain = model.conventions.to_json()
    assert plain["precision"] == "fp32"
    assert model.in_precision("fp32").conventions.to_json() == plain
    assert model.in_precision("tf32").conventions.to_json() == {**plain, "precision": "tf32"}


def test_a_cpu_offers_what_its_instructions_multiply(monkeypatch):
    for has, expected in (
        ({"avx512_f": True}, ("fp32",)),
        ({"avx512_bf16": True}, ("fp32", "bf16")),
        ({"amx_bf16": True, "amx_fp16": False, "avx512_fp16": True}, ("fp32", "bf16", "fp16")),
    ):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda has=has: has)
        assert able("cpu") == expected
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    refuse_unable("fp32", "cpu")
    with pytest.raises(
        InputError, match="precision: bf16: expected one of fp32, in which this CPU"
    ):
        refuse_unable("bf16", "cpu")


def test_auto_follows_the_compute_capability():
    found = {each: auto("cuda", each) for each in ((9, 0), (8, 0), (7, 5), (7, 0), (6, 1))}
    assert [*found.values()] == ["bf16", "bf16", "fp16", "fp16", "fp32"]
    assert auto("cpu") == "fp32"


def test_every_forward_sets_its_products(tiny_model):
    """Another model of the process, or its user, may have chosen otherwise since."""
    encoder = load_encoder(resolve_model(str(tiny_model)))
    torch.set_float32_matmul_precision("medium")
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = True
    encoder.encode(FLAT[:3], OFFSETS[:2], side="passage")
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    set_products("tf32")
    assert torch.get_float32_matmul_precision() == "high"
    set_products()


@pytest.mark.slow
def test_all_rows_have_one_value_in_reduced_precision_here():
    shapes = frozenset({precision_shape(768, 2304), precision_shape(3072, 768)})
    assert settle(shapes, device="cpu", threads=1, rows=600).proven


def precision_shape(inner, outer):
    from raypipe.models.machine.device import ProductShape

    return ProductShape(inner, outer, precision.DTYPES["bf16"])
