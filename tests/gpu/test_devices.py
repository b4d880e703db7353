"""No tensor of a forward stays on the CPU: tried on `meta`, which every machine has."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from raypipe.models.bert.forward import hidden_states
from raypipe.models.folder.model_folder import load_weights
from raypipe.models.gpu.passes import (
    FixedShape,
    gathered,
    on_device,
    step_of,
    units,
    vectors,
)
from raypipe.models.packed import attend_by_length, first_tokens
from raypipe.models.pooling import Finishing, pool
from raypipe.text.inputs import Layout

GROUPS = [(2, 5), (1, 9)]


def test_a_forward_elsewhere_mixes_no_devices(models, random_bert):
    model = models(random_bert.Shape(layers=2, hidden=64, heads=4, words=1000), "duo")
    weights, config = dict(load_weights(model)), model.config()
    bert = model.family.read(weights, config).to("meta")
    ids, positions, segments = (torch.zeros(19, dtype=torch.long, device="meta") for _ in range(3))
    wanted = first_tokens(GROUPS, "meta")
    tokens = (bert, ids, positions)
    first = hidden_states(*tokens, segments, GROUPS, attend_by_length, wanted=wanted)
    whole = hidden_states(*tokens, 1, GROUPS, attend_by_length)
    vectors = pool(whole, GROUPS, pooling="mean")
    assert [t.device.type for t in (first, whole, vectors)] == ["meta"] * 3
    assert [tuple(t.shape) for t in (first, whole, vectors)] == [(3, 64), (19, 64), (3, 64)]
    with pytest.raises(RuntimeError, match="device"):
        stayed = replace(bert, segments=torch.zeros(3, 64))
        hidden_states(stayed, ids, positions, segments, GROUPS, attend_by_length)


@pytest.mark.parametrize("of_any_length", [False, True])
@pytest.mark.parametrize("firsts", [False, True])
def test_a_pass_of_fixed_shape_mixes_no_devices(models, random_bert, of_any_length, firsts):
    """From the pieces and the plan on; `meta` computes nothing, so values play no part."""
    model = models(random_bert.Shape(layers=2, hidden=64, heads=4, words=1000), "duo")
    weights, config = load_weights(model), model.config()
    bert, head = (
        model.family.read(weights, config).to("meta"),
        model.family.head(weights, model.config()),
    )
    shape = FixedShape(64, 32, 3)

    def kernel(query, key, value, edges, longest):
        assert {t.device.type for t in (query, key, value, edges)} == {"meta"}
        return query

    unit = Finishing(normalise=True, pooling="max")
    finish = units(shape, head=head.to("meta")) if firsts else vectors(shape, finishing=unit)
    own = kernel if of_any_length else None
    step = step_of(model.family, bert, shape, own, finish, firsts=firsts)
    plan = torch.zeros(shape.plan_size, dtype=torch.long, device="meta")
    on_host = np.minimum(32 * np.arange(shape.num_edges), 64)
    flat = on_device(np.arange(9, dtype=np.uint16), "meta")
    layout = Layout(101, (102,), 102, (0, 1, 2))
    with torch.inference_mode():
        result = step(gathered([flat, flat, flat], plan, layout, shape), on_host)
    assert result.device.type == "meta"
    assert tuple(result.shape) == (16, 2 if firsts else 64)
