"""A row's result that depends on anything but the row is found."""

import numpy as np
import pytest
import torch

from raypipe.models.gpu.opening import rows_keep_their_bytes
from raypipe.models.gpu.passes import FixedEngine, FixedShape
from raypipe.text.inputs import Layout

LAYOUTS = [Layout(1, (2,), 2, (0,)), Layout(1, (2,), 2, (0, 1, 2))]


def step_over(neighbour):
    """A result from each input's own tokens, and `neighbour` of the whole pass."""

    def step(inputs, on_host):
        sums = torch.cat([torch.zeros(1, dtype=torch.long), inputs.ids.cumsum(0)])
        rows = max(16, len(inputs.ids) // 16)
        own = torch.diff(sums[inputs.edges[: rows + 1]]).float()
        return (own + neighbour(inputs))[:, None]

    return step


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("neighbour", "kept"),
    [
        (lambda inputs: 0.0, True),
        (lambda inputs: (inputs.ids[200] % 7).float(), False),
        (lambda inputs: inputs.edges[3].float() % 3, False),
        (lambda inputs: torch.arange(max(16, len(inputs.ids) // 16)) % 2, False),
    ],
)
def test_a_row_that_knows_its_neighbours_or_its_place_is_found(layout, neighbour, kept):
    shape = FixedShape(800, 60, len(layout.segments))
    engine = FixedEngine(step_over(neighbour), shape, device="cpu", precision="fp32")
    assert rows_keep_their_bytes(engine, layout, 1000) is kept


@pytest.mark.parametrize("most", [128, 256, 384])
def test_a_row_that_knows_how_long_the_longest_beside_it_may_be_is_found(most):
    """A kernel is given that number, in steps of 128."""

    def step(inputs, on_host):
        alone = step_over(lambda inputs: 0.0)(inputs, on_host)
        return alone + float(np.diff(on_host[: max(16, len(inputs.ids) // 16) + 1]).max() <= most)

    engine = FixedEngine(step, FixedShape(8192, 512), device="cpu", precision="fp32")
    assert not rows_keep_their_bytes(engine, LAYOUTS[0], 1000)
