"""A pass has the size that fits, and says what it promises."""

import numpy as np
import pytest
import torch

from raypipe.models.gpu import opening
from raypipe.models.gpu.opening import FixedSettings
from raypipe.models.load import load_encoder
from raypipe.models.machine.device import TOKENS_BY_GPU, TOKENS_OF_OTHERS, tokens_of_pass


@pytest.fixture
def memory(monkeypatch):
    """A function that lets passes of more tokens than these run out of memory."""
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    def of(most):
        original = opening.step_of

        def step_of(family, body, shape, *rest, **named):
            if shape.tokens > most:
                raise torch.OutOfMemoryError
            return original(family, body, shape, *rest, **named)

        monkeypatch.setattr(opening, "step_of", step_of)

    return of


@pytest.mark.fault(18, "room for 600 of 2,000 tokens: passes of 500, named in the numerics class")
def test_a_pass_is_halved_until_it_fits_and_the_class_says_so(model_of, part_of, memory):
    memory(600)
    encoder = load_encoder(model_of(), budget_tokens=2000, fixed=FixedSettings())
    assert "passes of 500 tokens" in encoder.numerics
    part = part_of([3, 200, 256], 1)
    found = encoder.encode(part.flat, np.append(part.starts, len(part.flat)), side="passage")
    assert np.isfinite(found).all()


def test_the_longest_input_must_fit(model_of, memory):
    memory(258)  # 256 pieces and two special tokens
    assert "of 258 tokens" in load_encoder(model_of(), fixed=FixedSettings()).numerics
    memory(257)
    with pytest.raises(torch.OutOfMemoryError):
        load_encoder(model_of(), fixed=FixedSettings())


def test_an_unproven_pass_is_named_so(model_of, monkeypatch):
    monkeypatch.setattr(opening, "rows_keep_their_bytes", lambda *given: False)
    encoder = load_encoder(model_of(), budget_tokens=300, fixed=FixedSettings())
    assert encoder.numerics.endswith("attention by length, neighbours: unproven")


def test_a_gpu_has_the_tokens_of_its_name(monkeypatch):
    names = {
        "NVIDIA H100 80GB HBM3": 32768,
        "NVIDIA A100-SXM4-40GB": 32768,
        "NVIDIA A10G": 16384,
        "NVIDIA L4": 16384,
        "Tesla T4": 8192,
        "NVIDIA GeForce RTX 3090": TOKENS_OF_OTHERS,
    }
    for name, tokens in names.items():
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda number, name=name: name)
        assert tokens_of_pass("cuda") == tokens
    assert tokens_of_pass("cpu") == 2048
    assert all(tokens % 256 == 0 for _, tokens in TOKENS_BY_GPU)


def test_the_kernel_of_attention_is_looked_for_by_the_size_of_a_head(model_of, monkeypatch):
    asked = []
    monkeypatch.setattr(opening, "found_varlen", lambda *given: asked.append(given))
    load_encoder(model_of(), fixed=FixedSettings())
    assert asked == [("cpu", torch.float32, 64 // 4, {None})]
