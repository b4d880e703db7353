"""Stores that are written shard by shard."""

import numpy as np

from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec

SPEC = StageSpec("toy", 1)


def ledger(storage, sizes, store="toy"):
    """The ledger of a store with shards of these sizes."""
    edges = np.cumsum([0, *sizes]).tolist()
    shards = [Shard(i, edges[i], edges[i + 1]) for i in range(len(sizes))]
    return Ledger(storage, store, SPEC, shards)


def commit(book, shard, write):
    """Commit what `write` leaves at a path."""
    path = book.storage.scratch() / "payload"
    write(path)
    book.commit(shard, path, {"rows": shard.num_rows})
