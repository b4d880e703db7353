"""Operations of a forward pass, by hand, and what GPUs are assumed to do."""

from types import SimpleNamespace

import numpy as np
import pytest

from raypipe.driver.forecast.rates import PEAK_TFLOPS, assumed_rate, flops_of
from raypipe.errors import InputError

CONFIG = {"hidden_size": 4, "intermediate_size": 10, "num_hidden_layers": 3}


def test_operations_are_those_of_the_linear_layers_and_of_attention():
    # A layer and token: query, key, value and output 4 x (4 x 4), and 4 x 10 there and back;
    # attention over L tokens: L x 4 products for the scores, and L x 4 for the values.
    by_hand = [n * 3 * (2 * (4 * 16 + 2 * 40) + 2 * (2 * n * 4)) for n in (1, 7)]
    family = SimpleNamespace(files=SimpleNamespace(as_bert=dict))
    model = SimpleNamespace(config=lambda: CONFIG, family=family)
    assert flops_of(model, np.array([1, 7])).tolist() == by_hand


@pytest.mark.parametrize(
    ("gpu", "precision", "peak", "meant"),
    [
        ("H100", "auto", 989e12, "bf16"),
        ("nvidia h100", "fp32", 67e12, "fp32"),
        ("V100", "auto", 125e12, "fp16"),
        ("V100", "fastest", 125e12, "fp16"),
        ("NVIDIA A100-SXM4-80GB", "bf16", 312e12, "bf16"),  # as torch names it
        ("Tesla V100-SXM2-16GB", "fp16", 125e12, "fp16"),
        ("NVIDIA H100 80GB HBM3", "bf16", 989e12, "bf16"),
        ("A100", "tf32", 156e12, "tf32"),
    ],
)
def test_a_gpu_does_three_tenths_of_its_peak_in_the_precision(gpu, precision, peak, meant):
    assert assumed_rate(gpu, precision) == (pytest.approx(0.3 * peak), meant)


def test_an_unknown_gpu_or_a_precision_that_it_lacks_is_refused():
    for gpu in ("GTX", "NVIDIA A10G", "NVIDIA GH200 480GB"):
        with pytest.raises(InputError, match=f"--gpu {gpu}: expected one of H200, H100"):
            assumed_rate(gpu, "auto")
    with pytest.raises(InputError, match="--gpu V100: it does not multiply in bf16"):
        assumed_rate("V100", "bf16")


def test_every_gpu_has_half_precision():
    assert all("fp16" in peaks and "fp32" in peaks for peaks in PEAK_TFLOPS.values())
