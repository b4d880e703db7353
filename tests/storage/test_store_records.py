import pytest
from ledgers import commit, ledger

from raypipe.errors import CorruptError
from raypipe.storage.ledger import read_manifest


def test_a_manifest_under_another_stores_name_is_refused(storage):
    book = ledger(storage, [2])
    commit(book, book.shards[0], lambda p: p.write_bytes(b"rows"))
    book.publish()
    other = ledger(storage, [2], store="other")
    data = book.storage.read(f"{book.folder}/manifest.json")
    assert other.storage.create(f"{other.folder}/manifest.json", data)
    with pytest.raises(CorruptError, match="found one of toy/"):
        read_manifest(other.storage, "other", other.fingerprint)
