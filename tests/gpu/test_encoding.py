"""Vectors on a device: the CPU's and transformers', at every length.

Vectors have length 1 and are compared by the length of their difference. The CPU's own fp32 is
1.2e-6 from float64 over the 12 layers of BERT-base; products in TF32, which keeps 10 bits of an
input's 23, simulated on a CPU, end at 2e-3. The tolerance lies between.
"""

import numpy as np
import pytest
import torch
from transformers import BertModel

from raypipe.models.load import load_encoder

TOLERANCE = 2e-5
LIMIT = 510


def distances(found, expected):
    return np.linalg.norm(found.astype(np.float64) - expected, axis=1)


def test_vectors_equal_the_cpus_at_every_length(
    device, shape, models, random_bert, step, threads, tell
):
    model = models(shape, passage_limit=LIMIT)
    counts = np.unique([0, 1, *range(0, LIMIT, step), LIMIT])
    pieces = random_bert.pieces_of(counts, shape, seed=1)
    expected = load_encoder(model, threads=threads).encode(
        *pieces, side="passage", budget_tokens=2048
    )
    assert np.linalg.norm(expected[1:] - expected[:-1], axis=1).min() > 100 * TOLERANCE
    encoder = load_encoder(model, device=device, threads=threads)
    packed = distances(encoder.encode(*pieces, side="passage"), expected)
    alone = distances(encoder.encode(*pieces, side="passage", budget_tokens=1), expected)
    tell(f"largest distance packed {packed.max():.1e}, alone {alone.max():.1e}")
    assert packed.max() < TOLERANCE, counts[packed.argmax()]
    assert alone.max() < TOLERANCE, counts[alone.argmax()]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_those_of_transformers_in_float64(
    device, shape, models, random_bert, threads, tell, pooling
):
    model = models(shape, pooling=pooling, passage_segment=1, passage_limit=LIMIT)
    some = [0, 1, 13, 14, 15, 16, 62, 63, 128, 254, 509, 510, 511, 600]
    flat, offsets = random_bert.pieces_of(some, shape, seed=2)
    found = load_encoder(model, device=device, threads=threads).encode(
        flat, offsets, side="passage"
    )
    bert = BertModel.from_pretrained(model.folder, attn_implementation="eager").double().eval()
    expected = []
    for start, stop in zip(offsets[:-1], offsets[1:], strict=True):
        ids = torch.tensor([[2, *flat[start : min(stop, start + LIMIT)].tolist(), 3]])
        with torch.inference_mode():
            hidden = bert(ids, token_type_ids=torch.ones_like(ids)).last_hidden_state[0]
        vector = hidden.mean(dim=0) if pooling == "mean" else hidden[0]
        expected.append((vector / vector.norm()).numpy())
    far = distances(found, np.stack(expected))
    tell(f"largest distance {far.max():.1e}")
    assert far.max() < TOLERANCE
