"""Peak memory: the weights and what a budget's tokens need in the widest moment of one layer.

That moment is gelu: in and out, 4 H wide each, beside the layer's input, what attention mixed and
what comes of it, H each: 11 H numbers of 4 bytes a token. Ids, positions and segments are 24 bytes
a token. On CUDA the allocator rounds and cuBLAS keeps workspaces: 128 MiB and 10% more.
"""

import weakref

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from raypipe.models.folder.model_folder import load_weights
from raypipe.models.load import load_encoder, load_scorer
from raypipe.text.inputs import TextSlice

BUDGETS = {"cpu": 4096, "cuda": 32768}


class Watched(TorchDispatchMode):
    """The most bytes that live at once of storages made under it."""

    def __init__(self):
        super().__init__()
        self.live, self.peak, self._known = 0, 0, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                self._note(tensor.untyped_storage())
        return out

    def _note(self, storage):
        key, size = storage.data_ptr(), storage.nbytes()
        if key in self._known or not size:
            return
        self._known.add(key)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._gone, key, size)

    def _gone(self, key, size):
        self._known.discard(key)
        self.live -= size


def peak_of(device, work):
    """Bytes beyond those that lived before."""
    if device == "cuda":
        work()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with Watched() as watched:
        work()
    return watched.peak


def bound(device, hidden, tokens):
    exact = tokens * (11 * hidden * 4 + 24)
    return exact * 1.1 + (128 << 20) if device == "cuda" else exact * 1.02


@pytest.mark.parametrize("kind", ["encoder", "mono"])
@pytest.mark.parametrize("length", [64, 512])
def test_a_forward_takes_what_its_tokens_need(
    device, shape, models, random_bert, kind, length, tell
):
    budget = BUDGETS[device]
    rows = 2 * budget // length
    settings = {"passage_limit": 510}
    if kind == "mono":
        settings = {"query_limit": 20, "total_limit": length}
    model = models(shape, kind, **settings)
    if kind == "encoder":
        flat, offsets = random_bert.pieces_of(np.full(rows, length - 2), shape, seed=1)
        encoder = load_encoder(model, device=device, budget_tokens=budget)

        def work():
            encoder.encode(flat, offsets, side="passage", budget_tokens=budget)
    else:
        flat, offsets = random_bert.pieces_of(np.full(rows, length), shape, seed=1)
        part = TextSlice(flat, offsets[:-1], np.diff(offsets))
        scorer = load_scorer(model, device=device, budget_tokens=budget)

        def work():
            scorer.score(part, [part], budget_tokens=budget)

    found, allowed = peak_of(device, work), bound(device, shape.hidden, budget)
    tell(f"{found / 2**20:.0f} MiB of {allowed / 2**20:.0f} for {budget} tokens")
    assert found <= allowed
    # And not far less: the whole budget was computed at once.
    assert found >= budget * 8 * shape.hidden * 4


@pytest.mark.gpu
def test_weights_lie_once_on_the_device(random_bert, models, tell):
    base = random_bert.Shape(layers=12, hidden=768, heads=12, words=30522)
    model = models(base)
    before = torch.cuda.memory_allocated()
    encoder = load_encoder(model, device="cuda")
    found = torch.cuda.memory_allocated() - before
    needed = sum(
        tensor.numel() * 4
        for name, tensor in load_weights(model).items()
        if "pooler" not in name and "position_ids" not in name
    )
    tell(f"{found / 2**20:.1f} MiB, the weights are {needed / 2**20:.1f}")
    assert needed <= found <= needed * 1.02 + (1 << 20)
    assert encoder.dim == 768
