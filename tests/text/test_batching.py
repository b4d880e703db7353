import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from raypipe.text.batching import batches


@given(st.lists(st.integers(2, 40), max_size=60), st.integers(1, 100))
def test_batches_hold_every_row_once_within_the_budget_by_length(lengths, budget):
    sizes = np.array(lengths, np.int64)
    found = list(batches(sizes, budget_tokens=budget))
    order = [row for batch in found for row in batch.tolist()]
    assert order == sorted(range(len(lengths)), key=lambda row: (lengths[row], row))
    assert all(len(batch) == 1 or sizes[batch].sum() <= budget for batch in found)
