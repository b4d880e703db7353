"""Inputs made on the device are those made on the host, with filler behind them."""

import numpy as np
import pytest
import torch

from raypipe.models.gpu.passes import FixedShape, compact, gathered, on_device, write_plan
from raypipe.text.inputs import Layout, TextSlice, make_inputs, taken

RNG = np.random.default_rng(3)
LAYOUTS = [
    Layout(101, (102,), 102, (0,)),
    Layout(101, (102,), 102, (1,)),
    Layout(101, (102,), 102, (0, 1)),
    Layout(101, (102,), 102, (0, 1, 2)),
    Layout(0, (2, 3), 4, (0, 0), first_position=2),
    Layout(None, (), 102, (0,)),
    Layout(101, (), None, (0,)),
    Layout(None, (2, 3), 4, (0, 1)),
]


def texts_of(layout, num_inputs, longest, dtype, words):
    """Texts with 0 and more pieces, anywhere in pieces of their own."""
    found = []
    for _ in layout.segments:
        flat = RNG.integers(5, words, 300).astype(dtype)
        flat[:: RNG.integers(2, 5)] = 1  # the padding of a layout whose first position is 2
        counts = RNG.integers(0, longest + 1, num_inputs)
        counts[: min(3, num_inputs)] = 0
        found.append(TextSlice(flat, RNG.integers(0, 300 - longest, num_inputs), counts))
    return found


def made(texts, layout, shape, *, seed=-7):
    plan = np.full(shape.plan_size, seed, np.int64)
    edges = write_plan(plan, texts, layout, shape)
    flats = [on_device(text.flat, "cpu") for text in texts]
    return gathered(flats, torch.from_numpy(plan), layout, shape), edges


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(("dtype", "words"), [(np.uint16, 65536), (np.uint32, 120_000)])
@pytest.mark.parametrize("num_inputs", [1, 9, 16])
def test_inputs_are_those_of_the_host(layout, dtype, words, num_inputs):
    texts = texts_of(layout, num_inputs, 12, dtype, words)
    texts[0].flat[:] = np.arange(words - 300, words)  # the highest bit of an id counts
    expected = make_inputs(texts, layout)
    total = len(expected.ids)
    # Filler of less than a sequence, of several, and none.
    for tokens in (total, total + 1, total + 100):
        shape = FixedShape(max(tokens, 16), 40, len(texts))
        found, edges = made(texts, layout, shape)
        for name in ("ids", "positions", "segments"):
            own = getattr(found, name).numpy()
            assert own.shape == (shape.tokens,) and own.dtype == np.int64
            np.testing.assert_array_equal(own[:total], getattr(expected, name), err_msg=name)
        assert (found.ids[total:] == (layout.last or 0)).all()
        assert (found.positions[total:] == layout.first_position).all()
        assert (found.segments[total:] == layout.segments[0]).all()
        np.testing.assert_array_equal(np.diff(edges)[:num_inputs], expected.lengths)
        assert (np.diff(edges)[num_inputs : shape.rows] == 0).all()


def test_what_a_plan_held_before_does_not_matter():
    layout, shape = LAYOUTS[2], FixedShape(400, 40, 2)
    texts = texts_of(layout, 9, 12, np.uint16, 1000)
    one, other = (made(texts, layout, shape, seed=seed)[0] for seed in (-7, 1 << 40))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_batch_may_bring_its_own_pieces():
    layout, shape = LAYOUTS[3], FixedShape(600, 60, 3)
    texts = [taken(t, np.array([8, 0, 5, 5])) for t in texts_of(layout, 9, 12, np.uint16, 1000)]
    own = compact(texts)
    assert len({id(text.flat) for text in own}) == 1
    assert len(own[0].flat) == sum(int(text.counts.sum()) for text in texts)
    whole, alone = made(texts, layout, shape)[0], made(own, layout, shape)[0]
    assert all(torch.equal(a, b) for a, b in zip(whole, alone, strict=True))


def test_texts_without_any_piece_have_special_tokens():
    nothing = TextSlice(np.empty(0, np.uint16), np.zeros(2, np.int64), np.zeros(2, np.int64))
    found, _ = made([nothing], LAYOUTS[0], FixedShape(16, 16))
    assert found.ids[:4].tolist() == [101, 102, 101, 102]
