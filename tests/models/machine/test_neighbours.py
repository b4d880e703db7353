"""The probe decides by bits: it can find rows that mix, and what it then settles for."""

import json

import pytest
import torch
from safetensors.torch import load_file

from raypipe.models.bert.family import FAMILY
from raypipe.models.machine import device
from raypipe.models.machine.device import (
    COMPANY,
    ProductShape,
    Settled,
    bert_shapes,
    settle,
    settled,
    shapes_of,
)
from raypipe.models.packed import linear

SHAPES = bert_shapes(32, 64)


SMALL = frozenset({ProductShape(8, 16)})


def split_from(rows, threads=1):
    """A product that halves its inner sums from so many rows and threads on, as MKL may."""

    def product(x, weights):
        weight, bias = weights
        if len(x) < rows or torch.get_num_threads() < threads:
            return linear(x, weights)
        half = weight.shape[1] // 2
        return linear(x[:, :half], (weight[:, :half], bias)) + x[:, half:] @ weight[:, half:].T

    return product


def rarely_differs(rows, threads):
    """A product whose sums in another order show in one value of 100,000, as after rounding."""

    def product(x, weights):
        y = linear(x, weights)
        if len(x) >= rows and torch.get_num_threads() >= threads:
            y = torch.where((x[:, :1] * 1e5).round() % 1000 == 7, y * 1.01, y)
        return y

    return product


def test_what_differs_in_few_rows_is_found():
    rare = rarely_differs(57, threads=2)
    assert settled(SMALL, device="cpu", threads=2, rows=8192, product=rare) == Settled(1, True)
    bf16 = frozenset({ProductShape(8, 16, torch.bfloat16)})
    assert settled(bf16, device="cpu", threads=1, rows=300).proven


def last_row_differs(rest):
    """A product that computes the last row otherwise where 6 leaves this rest."""

    def product(x, weights):
        y = linear(x, weights)
        if len(x) > 16 and len(x) % 6 == rest:
            y[-1] = torch.nextafter(y[-1], torch.tensor(torch.inf))
        return y

    return product


def test_rows_that_keep_their_bytes_keep_all_threads():
    found = settled(SHAPES, device="cpu", threads=2, rows=2048, product=split_from(10_000))
    assert found == Settled(2, True)


@pytest.mark.parametrize("rows", [17, 57, 500, 2048])
def test_rows_that_mix_with_two_threads_leave_one(rows):
    product = split_from(rows, threads=2)
    assert settled(SHAPES, device="cpu", threads=2, rows=2048, product=product) == Settled(1, True)


@pytest.mark.parametrize("rows", [17, 57, 500, 2048])
def test_rows_that_mix_with_one_thread_leave_the_promise_unproven(rows):
    found = settled(SHAPES, device="cpu", threads=2, rows=2048, product=split_from(rows))
    assert found == Settled(1, False)


@pytest.mark.parametrize("rest", range(6))
def test_one_row_at_the_edge_is_enough(rest):
    product = last_row_differs(rest)
    assert not settled(SHAPES, device="cpu", threads=1, rows=2048, product=product).proven


def test_one_shape_among_many_is_enough():
    def product(x, weights):
        return split_from(17)(x, weights) if x.shape[1] == 64 else linear(x, weights)

    assert not settled(SHAPES, device="cpu", threads=1, rows=2048, product=product).proven


def test_a_row_must_have_its_bytes_of_one_thread_even_alone():
    found = settled(SHAPES, device="cpu", threads=2, rows=2048, product=split_from(1, threads=2))
    assert found == Settled(1, True)


def test_the_threads_that_were_settled_are_set_and_the_seed_stays():
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    for threads in (2, 1):
        found = settle(SHAPES, device="cpu", threads=threads, rows=2048)
        assert torch.get_num_threads() == found.threads
    assert torch.equal(torch.randn(3), expected)


@pytest.mark.slow
def test_strict_mkl_is_proven_at_real_shapes():
    if "STRICT" not in device.blas():
        pytest.skip(f"no strict MKL here: {device.blas()}")
    shapes = bert_shapes(384, 1536) | bert_shapes(768, 3072)
    assert settle(shapes, device="cpu", threads=2, rows=2048) == Settled(2, True)


def test_the_shapes_are_those_of_every_linear_layer_and_of_a_head(tiny_mono):
    assert {each[:2] for each in bert_shapes(2, 8)} == {(2, 6), (2, 2), (2, 8), (8, 2)}
    weights = load_file(tiny_mono / "model.safetensors")
    bert = FAMILY.read(weights, json.loads((tiny_mono / "config.json").read_text()))
    classifier = (torch.zeros(16, 32), torch.zeros(16))
    assert shapes_of(bert) == SHAPES
    assert shapes_of(bert, classifier) == SHAPES | {ProductShape(32, 16)}
    narrow = shapes_of(bert.to("cpu", "bf16"), classifier)
    assert narrow == {ProductShape(*each[:2], torch.bfloat16) for each in SHAPES} | {
        ProductShape(32, 16)
    }
    assert min(COMPANY) == 1 and {17, 33, 57, 500, 2048} <= set(COMPANY)


@pytest.mark.parametrize("rows", [300, 2048, 2500, 20_000])
def test_as_many_rows_as_a_forward_has_are_tried_and_no_more(rows):
    just, beyond = split_from(rows), split_from(rows + 1)
    assert not settled(SMALL, device="cpu", threads=1, rows=rows, product=just).proven
    assert settled(SMALL, device="cpu", threads=1, rows=rows, product=beyond).proven


def test_a_larger_budget_is_tried_whole_by_who_loads_a_model(tiny_model, monkeypatch):
    from raypipe.models.folder.model_folder import resolve_model
    from raypipe.models.load import load_encoder

    asked = []

    def settle(shapes, **given):
        asked.append((len(shapes), given["rows"]))
        return Settled(1, False)

    monkeypatch.setattr(device, "settle", settle)
    model = resolve_model(str(tiny_model))
    assert load_encoder(model).numerics.endswith("neighbours: unproven")
    load_encoder(model, budget_tokens=6000)
    load_encoder(model, budget_tokens=1)
    load_encoder(model, budget_tokens=10**10)
    longest = max(model.encoder.query_limit, model.encoder.passage_limit) + 2
    assert [rows for _, rows in asked] == [2048, 6000, longest, 8192]


def test_the_companies_are_those_in_which_rows_were_seen_to_mix():
    small = list(range(17, 34))
    assert list(COMPANY) == [1, *small, 57, 129, 500, 777, 2048, 4096, 8192, 16384]


def test_companies_end_with_the_rows_of_a_forward():
    rows = []

    def product(x, weights):
        rows.append(len(x))
        return x[:, :1]

    assert settled(
        {ProductShape(20, 10)}, device="cpu", threads=1, rows=5000, product=product
    ).proven
    assert rows[: device.DISTINCT] == [1] * device.DISTINCT
    assert rows[device.DISTINCT :] == [*list(COMPANY)[:-2], 5000, 5000, 5000]
