"""Tables of blocks of queries as payloads, and what a ranking is of."""

import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.stages.stage import Opened, Site, Sizing
from raypipe.stages.tables import Sides, num_lines, opened_blocks, query_blocks
from raypipe.storage.payloads import read_table
from raypipe.storage.records import Shard

BLOCK = Shard(3, 10, 12)


def run_of(shard):
    """One line a query."""
    rows = list(range(shard.start, shard.stop))
    one = [1] * len(rows)
    return pa.table([rows, one, one, [0.5] * len(rows), ["x"] * len(rows)], schema=schema.RUN)


def test_blocks_hold_so_many_queries_at_most(stores):
    queries = stores.queries("a", "b", "c", "d", "e")
    assert query_blocks(queries, Sizing(shard_queries=2)) == [
        Shard(0, 0, 1), Shard(1, 1, 3), Shard(2, 3, 5),
    ]  # fmt: skip
    assert query_blocks(stores.queries(), Sizing()) == [Shard(0, 0, 0)]


def test_a_block_beats_once_before_its_table_is_made_and_written_by_its_number(tmp_path):
    told = []

    def block(shard):
        told.append(shard)
        return run_of(shard)

    opened = opened_blocks(Site(tmp_path), block)
    assert opened == Opened(opened.run, {}) and told == []
    opened_blocks(Site(tmp_path), block, close=lambda: told.append("closed")).close()
    assert told.pop() == "closed"
    payload = opened.run(BLOCK, (), told.append)
    assert told == [(), BLOCK]
    assert payload.path == tmp_path / "3.parquet" and payload.facts == {"rows": 2}
    assert read_table(payload.path, schema.RUN) == run_of(BLOCK)


def test_a_block_may_tell_facts_beside_its_rows_of_columns_of_its_own(tmp_path):
    columns = pa.schema([("number", pa.int64())])
    table = pa.table([[7]], schema=columns)
    opened = opened_blocks(Site(tmp_path), lambda shard: (table, {"failed": 4}), columns)
    payload = opened.run(BLOCK, (), lambda rows: None)
    assert payload.facts == {"rows": 1, "failed": 4}
    assert read_table(payload.path, columns) == table


def test_lines_are_counted_over_the_shards_of_a_run(stores):
    assert num_lines(stores.run([(0, 1, 2.0), (0, 2, 1.0)], [(1, 1, 1.0)])) == 3


@pytest.mark.parametrize("other", ["queries", "collection"])
def test_a_ranking_of_other_queries_or_of_another_collection_is_another(stores, other):
    sides = stores.sides(2)
    assert list(sides.stores()) == ["queries", "collection"]
    changed = {**sides.stores(), other: getattr(stores.sides(2), other)}
    digests = [{n: s.identity for n, s in Sides(**each).stores().items()} for each in (
        sides.stores(), changed,
    )]  # fmt: skip
    assert digests[0][other] != digests[1][other]
