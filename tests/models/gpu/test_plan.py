"""Where sequences begin and end, and how rows are divided into passes, by hand."""

import numpy as np

from raypipe.models.gpu.passes import FixedShape, parts_of, write_plan
from raypipe.text.inputs import Layout, TextSlice

LAYOUT = Layout(101, (102,), 102, (0,))


def edges_of(text, shape):
    plan = np.full(shape.plan_size, -7, np.int64)
    edges = write_plan(plan, [text], LAYOUT, shape)
    assert np.shares_memory(edges, plan)
    starts, counts, _ = parts_of(plan, shape)
    assert starts[0].tolist() == [*text.starts, *[0] * (shape.rows - len(text.starts))]
    assert counts[0].tolist() == [*text.counts, *[0] * (shape.rows - len(text.counts))]
    return edges


def test_filler_is_cut_into_sequences_that_end_with_the_pass():
    text = TextSlice(np.arange(9, dtype=np.uint16), np.array([0, 4]), np.array([4, 5]))
    assert edges_of(text, FixedShape(100, 30)).tolist() == [0, 6, *[13] * 15, 43, 73, 100, 100]
    assert edges_of(text, FixedShape(16, 30)).tolist() == [0, 6, *[13] * 15, 16]


def test_batches_hold_the_budget_and_no_more_inputs_than_a_pass():
    shape = FixedShape(320, 100)
    lengths = np.array([3] * 50 + [90, 100, 100, 100])
    found = [rows.tolist() for rows in shape.batches(lengths, budget_tokens=10_000)]
    assert [len(rows) for rows in found] == [20, 20, 11, 3]
    assert sum(found, []) == list(range(54))
    small = list(shape.batches(lengths, budget_tokens=6))
    assert [len(rows) for rows in small] == [2] * 25 + [1] * 4
