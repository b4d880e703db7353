"""Batches that a device has no room for: the same values from smaller ones.

No GPU is needed: torch's error is raised where one would raise it, by the number of rows.
"""

import numpy as np
import pytest
import torch

from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.machine.device import parts_that_fit
from raypipe.models.packed_forward import PackedForward
from raypipe.text.inputs import TextSlice

LENGTHS = np.array([3, 9, 1, 20, 7, 7, 2, 14, 5, 11, 1])


@pytest.mark.parametrize(
    ("num_rows", "room", "sizes"),
    [(8, 8, [8]), (8, 4, [8, 4, 4]), (5, 2, [5, 2, 3, 1, 2]), (3, 1, [3, 1, 2, 1, 1]), (1, 1, [1])],
)
def test_a_batch_is_halved_until_its_parts_fit_and_keeps_its_order(num_rows, room, sizes):
    tried, done = [], []
    for part in parts_that_fit(np.arange(10, 10 + num_rows)):
        with part:
            tried.append(len(part.rows))
            if len(part.rows) > room:
                raise torch.OutOfMemoryError("CUDA out of memory")
            done += part.rows.tolist()
    assert done == list(range(10, 10 + num_rows)) and tried == sizes


@pytest.mark.parametrize(
    ("error", "tried"), [(torch.OutOfMemoryError, [4, 2, 1]), (RuntimeError, [4])]
)
def test_a_row_that_does_not_fit_alone_and_any_other_error_are_raised(error, tried):
    sizes = []
    with pytest.raises(error, match="an error"):
        for part in parts_that_fit(np.arange(4)):
            with part:
                sizes.append(len(part.rows))
                raise error("an error")
    assert sizes == tried


@pytest.fixture(params=[1, 2, 3])
def small_device(request, monkeypatch):
    """Forward passes have room for so many rows; how many found none."""
    refused, real = [], PackedForward._pass

    def forward(model, texts, layout):
        rows = len(texts[0].counts)
        if rows > request.param:
            refused.append(rows)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(model, texts, layout)

    monkeypatch.setattr(PackedForward, "_pass", forward)
    return refused


def pieces():
    flat = np.random.default_rng(0).integers(5, 40, LENGTHS.sum()).astype(np.uint16)
    return flat, np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int64)


@pytest.fixture(scope="module")
def calm(tiny_model, tiny_mono):
    encoder = load_encoder(resolve_model(str(tiny_model)))
    scorer = load_scorer(resolve_model(str(tiny_mono)))
    return encoder, scorer, *computed(encoder, scorer)


def computed(encoder, scorer):
    flat, offsets = pieces()
    texts = TextSlice(flat, offsets[:-1], LENGTHS)
    vectors = encoder.encode(flat, offsets, side="passage", budget_tokens=1000)
    return vectors, scorer.score(texts, [texts], budget_tokens=1000)


@pytest.mark.fault(18, "room for 1, 2 or 3 of 11 rows: all vectors and scores, bit for bit")
def test_vectors_and_scores_are_those_of_a_device_with_room_for_all(calm, small_device):
    encoder, scorer, vectors, scores = calm
    again = computed(encoder, scorer)
    assert len(small_device) > 4 and max(small_device) == len(LENGTHS)
    assert again[0].tobytes() == vectors.tobytes() and again[1].tobytes() == scores.tobytes()
