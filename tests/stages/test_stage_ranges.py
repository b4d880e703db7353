import pytest

from raypipe.stages.stage import ranges


@pytest.mark.parametrize(("num_rows", "size"), [(0, 5), (1, 5), (5, 5), (6, 5), (17, 4), (100, 1)])
def test_ranges_hold_every_row_once_and_are_as_equal_as_can_be(num_rows, size):
    shards = ranges(num_rows, size)
    assert [row for s in shards for row in range(s.start, s.stop)] == list(range(num_rows))
    assert [s.index for s in shards] == list(range(len(shards)))
    sizes = [s.num_rows for s in shards]
    assert max(sizes) <= size and max(sizes) - min(sizes) <= 1
    assert len(shards) == max(1, -(-num_rows // size))
