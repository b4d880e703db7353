from raypipe.stages.stage import Needs, Sizing, ranges
from raypipe.storage.records import Shard


def test_shards_are_at_most_so_large_as_equal_as_can_be_and_never_none():
    assert ranges(7, 3) == [Shard(0, 0, 2), Shard(1, 2, 4), Shard(2, 4, 7)]
    assert ranges(6, 3) == [Shard(0, 0, 3), Shard(1, 3, 6)]
    assert ranges(3, 3) == [Shard(0, 0, 3)]
    assert ranges(0, 3) == [Shard(0, 0, 0)]


def test_a_stage_needs_one_core_and_no_gpu_unless_it_says_so():
    assert Needs() == Needs(num_cpus=1.0, num_gpus=0.0, threads=1, memory_bytes=0)
    assert Sizing() == Sizing(
        num_actors=1, shard_tokens=250_000, shard_rows=100_000, shard_queries=1_000
    )
