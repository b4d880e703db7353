"""The probe decides by bits: it can find rows that mix, and what it then settles for."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from raypipe import numerics
from raypipe.models import blas
from raypipe.models.bert.weights import read_bert
from raypipe.models.device import numerics_class
from raypipe.models.neighbours import COMPANY, Settled, bert_shapes, settle, settled, shapes_of
from raypipe.models.packed import linear

SHAPES = bert_shapes(32, 64)


SMALL = frozenset({(8, 16)})


def split_from(rows, threads=1):
    """A product that halves its inner sums from so many rows and threads on, as MKL may."""

    def product(x, weights):
        weight, bias = weights
        if len(x) < rows or torch.get_num_threads() < threads:
            return linear(x, weights)
        half = weight.shape[1] // 2
        return linear(x[:, :half], (weight[:, :half], bias)) + x[:, half:] @ weight[:, half:].T

    return product


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


def test_strict_mkl_is_proven_at_real_shapes():
    if "STRICT" not in blas.blas():
        pytest.skip(f"no strict MKL here: {blas.blas()}")
    shapes = bert_shapes(384, 1536) | bert_shapes(768, 3072)
    assert settle(shapes, device="cpu", threads=2, rows=2048) == Settled(2, True)


def test_the_shapes_are_those_of_every_linear_layer_and_of_a_head(tiny_mono):
    assert bert_shapes(2, 8) == {(2, 6), (2, 2), (2, 8), (8, 2)}
    weights = load_file(tiny_mono / "model.safetensors")
    bert = read_bert(weights, json.loads((tiny_mono / "config.json").read_text()))
    classifier = (torch.zeros(16, 32), torch.zeros(16))
    assert shapes_of(bert) == SHAPES
    assert shapes_of(bert, classifier) == SHAPES | {(32, 16)}
    assert min(COMPANY) == 1 and {17, 33, 57, 500, 2048} <= set(COMPANY)


@pytest.mark.parametrize("rows", [300, 2048, 2500, 20_000])
def test_as_many_rows_as_a_forward_has_are_tried_and_no_more(rows):
    just, beyond = split_from(rows), split_from(rows + 1)
    assert not settled(SMALL, device="cpu", threads=1, rows=rows, product=just).proven
    assert settled(SMALL, device="cpu", threads=1, rows=rows, product=beyond).proven


def test_a_larger_budget_is_tried_whole_by_who_loads_a_model(tiny_model, monkeypatch):
    from raypipe.models import encoder, placing
    from raypipe.models.folder.loading import resolve_model

    asked = []

    def settle(shapes, **given):
        asked.append((len(shapes), given["rows"]))
        return Settled(1, False)

    monkeypatch.setattr(placing, "settle", settle)
    model = resolve_model(str(tiny_model))
    assert encoder.load_encoder(model).numerics.endswith("neighbours: unproven")
    encoder.load_encoder(model, budget_tokens=6000)
    encoder.load_encoder(model, budget_tokens=1)
    encoder.load_encoder(model, budget_tokens=10**10)
    longest = max(model.encoder.query_limit, model.encoder.passage_limit) + 2
    assert [rows for _, rows in asked] == [2048, 6000, longest, 8192]


def test_the_class_says_what_is_not_proven_and_names_library_and_mode():
    proven = numerics_class("cpu")
    assert blas.blas() in proven and torch.__version__ in proven and proven.endswith(", fp32")
    assert numerics_class("cpu", proven=False) == f"{proven}, neighbours: unproven"


@pytest.mark.parametrize(
    ("settings", "auto", "name"),
    [
        (1, 14, "off (AVX512_E1)"),
        (0, 10, "off (AVX2)"),
        (2, 10, "AVX2"),
        (0x10002, 12, "AVX512,STRICT"),
        (0x1000A, 14, "AVX2,STRICT"),
        (3, 14, "COMPATIBLE"),
        (0x10063, 14, "branch 99,STRICT"),
    ],
)
def test_a_mode_is_named_by_its_kernels(settings, auto, name):
    assert blas.mode_name(settings, auto) == name


def test_the_vendor_is_read_from_torchs_own_description():
    mkl = "  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for"
    assert blas.vendor_of(mkl) == "mkl 2024.2"
    assert blas.vendor_of("Build settings: BLAS_INFO=open, BUILD_TYPE=Release") == "openblas"
    assert blas.vendor_of("LAPACK_INFO=x, BLAS_INFO=accelerate, CXX") == "accelerate"
    assert blas.vendor_of("nothing") == "unknown blas"


CHILD = """
import os
before = dict(os.environ)
import raypipe
import raypipe.models.encoder
assert dict(os.environ) == before
from raypipe.models.blas import blas
print(blas())
"""


@pytest.mark.parametrize("given", [None, "AUTO,STRIKT"])
def test_the_mode_in_force_is_read_back_and_importing_raypipe_sets_none(given):
    """A misspelt mode is passed over by MKL in silence."""
    if not blas.blas().startswith("mkl"):
        pytest.skip(f"no MKL here: {blas.blas()}")
    kept = {k: v for k, v in os.environ.items() if k != numerics.VARIABLE}
    environment = kept if given is None else {**kept, numerics.VARIABLE: given}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.strip()
    assert told.startswith("mkl ") and "STRICT" not in told, told
    assert ("off (" in told) == (given is None), told


def test_the_tests_themselves_run_in_strict_mode():
    if not blas.blas().startswith("mkl") or os.environ[numerics.VARIABLE] != numerics.STRICT:
        pytest.skip(f"no MKL here, or a mode of the user's own: {blas.blas()}")
    assert blas.blas().endswith(",STRICT")
