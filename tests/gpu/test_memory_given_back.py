"""A device's memory after a stage: what its model held is free for the next one, 25 times."""

import gc
import weakref

import numpy as np
import pytest
import torch

from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.machine.memory import give_memory_back
from raypipe.text.inputs import TextSlice

NUM_STAGES = 25


@pytest.fixture
def reserved(device):
    """A function: the bytes that torch holds of the device; its CPU allocator keeps no account."""
    return torch.cuda.memory_reserved if device == "cuda" else lambda: 0


@pytest.fixture
def thawed():
    """Afterwards this process's objects are looked at again."""
    yield
    gc.unfreeze()


@pytest.mark.slow
def test_a_closed_model_is_gone_and_its_device_holds_no_more_than_before(
    device, shape, models, random_bert, reserved, thawed, tell
):
    encoder, mono = models(shape), models(shape, "mono", query_limit=20, total_limit=128)
    flat, offsets = random_bert.pieces_of(np.full(64, 60), shape, seed=1)
    texts = TextSlice(flat, offsets[:-1], np.diff(offsets))
    held, full = [], []
    for number in range(NUM_STAGES):
        if number % 2:
            opened = load_scorer(mono, device=device)
            opened.score(texts, [texts])
        else:
            opened = load_encoder(encoder, device=device)
            opened.encode(flat, offsets, side="passage")
        full.append(reserved())
        weights = weakref.ref(opened)
        del opened
        give_memory_back()
        assert weights() is None
        held.append(reserved())
    tell(f"{held[0] / 2**20:.0f} to {max(held) / 2**20:.0f} MiB, {max(full) / 2**20:.0f} at work")
    # On a CPU this says nothing; on CUDA the probe's and cuBLAS's workspaces stay from the start.
    assert max(held[2:]) <= 1.05 * held[1]
