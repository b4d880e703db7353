"""fp32 is fp32: no TF32, whatever the process or its container chose before."""

import os

import pytest
import torch

from raypipe.models.folder.model_folder import load_weights
from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.machine.precision import set_products
from raypipe.training.comm import make_deterministic


@pytest.fixture(autouse=True)
def as_it_was():
    before = torch.get_float32_matmul_precision(), torch.get_num_threads()
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.set_num_threads(before[1])
    torch.use_deterministic_algorithms(False)


def relative_error(device):
    """Of a product of two matrices; about 4e-7 in fp32, 3e-4 in TF32."""
    torch.manual_seed(0)
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    exact = a.double() @ b.double()
    found = (a.to(device) @ b.to(device)).cpu().double()
    return float((found - exact).norm() / exact.norm())


@pytest.mark.gpu
@pytest.mark.parametrize("load", ["encoder", "scorer", "training"])
def test_whatever_computes_on_cuda_switches_tf32_off(models, random_bert, load, tell):
    tiny = random_bert.Shape(layers=1, hidden=64, heads=4, words=1000)
    torch.set_float32_matmul_precision("high")
    with_tf32 = relative_error("cuda")
    if load == "encoder":
        load_encoder(models(tiny), device="cuda")
    elif load == "scorer":
        load_scorer(models(tiny, "mono"), device="cuda")
    else:
        make_deterministic("cuda", 1)
    assert not torch.backends.cuda.matmul.allow_tf32
    exact = relative_error("cuda")
    tell(f"relative error of a product {exact:.1e}, with TF32 {with_tf32:.1e}")
    assert exact < 5e-6


def test_full_precision_holds_on_the_cpu_too():
    torch.set_float32_matmul_precision("medium")
    set_products()
    assert torch.get_float32_matmul_precision() == "highest"
    assert relative_error("cpu") < 5e-6


def test_weights_that_move_all_move(models, random_bert):
    """`meta` is a device that every machine has: nothing may stay behind."""
    model = models(random_bert.Shape(layers=2, hidden=64, heads=4, words=1000))
    bert = model.family.read(load_weights(model), model.config()).to("meta")
    every = [bert.words, bert.positions, bert.segments, *bert.norm]
    for layer in bert.layers:
        for part in (layer.qkv, layer.out, layer.norm_attention, layer.up, layer.down):
            every += part
        every += layer.norm_output
    assert len(every) == 5 + 2 * 12
    assert {tensor.device.type for tensor in every} == {"meta"}


def test_training_on_cuda_refuses_what_adds_in_no_fixed_order(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    torch.set_float32_matmul_precision("high")
    make_deterministic("cuda", 1)
    assert torch.are_deterministic_algorithms_enabled()
    # With a warning alone torch leaves the backward of attention as it is.
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.get_float32_matmul_precision() == "highest"
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
