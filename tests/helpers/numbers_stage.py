"""Shards of a toy task, and what a worker leaves of it."""

from raypipe.storage.records import Shard

SHARDS = [Shard(0, 0, 4), Shard(1, 4, 8)]
