from raypipe.cluster.report import report_of
from raypipe.storage.records import Shard


def test_what_stands_of_a_store_is_told_in_shards_and_rows():
    shards = [Shard(0, 0, 5), Shard(1, 5, 12), Shard(2, 12, 13)]
    found = report_of(shards, [shards[1]])
    assert (found.num_planned, found.num_reused, found.num_done) == (3, 2, 0)
    assert (found.num_rows_planned, found.num_rows_reused, found.num_rows) == (13, 6, 0)
