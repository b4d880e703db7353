"""No tensor of a forward stays on the CPU: tried on `meta`, which every machine has."""

from dataclasses import replace

import pytest
import torch

from raypipe.models.bert.forward import hidden_states
from raypipe.models.bert.weights import read_bert
from raypipe.models.folder.opening import load_weights
from raypipe.models.packed import attend_by_length, first_tokens, pool

GROUPS = [(2, 5), (1, 9)]


def test_a_forward_elsewhere_mixes_no_devices(models, random_bert):
    model = models(random_bert.Shape(layers=2, hidden=64, heads=4, words=1000), "duo")
    weights, config = dict(load_weights(model)), model.config()
    bert = read_bert(weights, config).to("meta")
    ids, positions, segments = (torch.zeros(19, dtype=torch.long, device="meta") for _ in range(3))
    wanted = first_tokens(GROUPS, "meta")
    tokens = (bert, ids, positions)
    first = hidden_states(*tokens, segments, GROUPS, attend_by_length, wanted=wanted)
    whole = hidden_states(*tokens, 1, GROUPS, attend_by_length)
    vectors = pool(whole, GROUPS, pooling="mean", normalise=True)
    assert [t.device.type for t in (first, whole, vectors)] == ["meta"] * 3
    assert [tuple(t.shape) for t in (first, whole, vectors)] == [(3, 64), (19, 64), (3, 64)]
    with pytest.raises(RuntimeError, match="device"):
        stayed = replace(bert, segments=torch.zeros(3, 64))
        hidden_states(stayed, ids, positions, segments, GROUPS, attend_by_length)
