import numpy as np
import pytest

from raypipe.errors import CorruptError
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store_records import read_manifest

SPEC = StageSpec("toy", 1)


def ledger(storage, sizes, store="toy"):
    edges = np.cumsum([0, *sizes]).tolist()
    shards = [Shard(i, edges[i], edges[i + 1]) for i in range(len(sizes))]
    return Ledger(storage, store, SPEC, shards)


def commit(book, shard, write):
    path = book.storage.scratch() / "payload"
    write(path)
    book.commit(shard, path, {"rows": shard.num_rows})


def test_a_manifest_under_another_stores_name_is_refused(storage):
    book = ledger(storage, [2])
    commit(book, book.shards[0], lambda p: p.write_bytes(b"rows"))
    book.publish()
    other = ledger(storage, [2], store="other")
    data = book.storage.read(f"{book.folder}/manifest.json")
    assert other.storage.create(f"{other.folder}/manifest.json", data)
    with pytest.raises(CorruptError, match="found one of toy/"):
        read_manifest(other.storage, "other", other.fingerprint)
