"""Records of one byte string each: every flipped bit is found."""

from dataclasses import replace

import pytest
from ledgers import commit, ledger

from raypipe.errors import CorruptError
from raypipe.storage.ledger import events, read_manifest
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import (
    Manifest,
    Record,
    Shard,
    canonical,
    digest,
    hash_file,
    seal,
    unseal,
    unseal_format,
)


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(tmp_path / "stores")


def test_one_value_has_one_byte_string():
    assert canonical({"b": 1, "a": [1.5, None, "ü"]}) == b'{"a":[1.5,null,"\\u00fc"],"b":1}'
    with pytest.raises(ValueError):
        canonical({"a": float("nan")})
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.fault(12, "records that are cut, emptied, extended or changed are refused, 8 of 8")
def test_any_other_byte_of_a_sealed_record_is_refused(tmp_path):
    body = {"b": [1, 2], "a": {"c": None, "d": "é"}}
    data = seal(body)
    assert unseal("x", data) == body and data.endswith(b"}\n")
    changed = (data.replace(b"1", b"3", 1), b"[]", b"{}")
    for bad in (data[:-1], data[:10], b"", data + b"\n", b" " + data, *changed):
        with pytest.raises(CorruptError, match="x: the record's bytes"):
            unseal("x", bad)
    listed = {"body": [1], "sha256": digest(canonical([1]))}
    with pytest.raises(CorruptError):
        unseal("x", canonical(listed) + b"\n")
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    assert hash_file(path) == digest(b"abc")


def test_a_shard_is_five_numbers_and_told_with_its_span():
    assert Shard(3, 5, 9).num_rows == 4 and Shard(3, 5, 9).to_json() == [3, 5, 9, 0, 0]
    assert str(Shard(3, 5, 9)) == "shard 00003 rows [5, 9)"
    assert str(Shard(3, 5, 9, 0, 2)) == "shard 00003 rows [5, 9) x [0, 2)"


@pytest.mark.fault(12, "every flipped bit of a record, at every position, is found")
def test_every_flipped_bit_of_a_record_is_found():
    sealed = seal({"shard": [0, 0, 10, 0, 0], "sha256": "ab" * 32, "rows": 10})
    for position in range(len(sealed)):
        for bit in range(8):
            damaged = bytearray(sealed)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptError, match="x.json"):
                unseal("x.json", bytes(damaged))


RECORDS = (Record(Shard(0, 0, 4), "aa", 8, {"rows": 4, "numerics": "cpu"}),)
MANIFEST = Manifest("s", "f", RECORDS, ("cpu",), (2,))


def test_manifest_bytes_round_trip():
    again = Manifest.from_json(unseal_format("m", MANIFEST.to_bytes()))
    assert again == MANIFEST
    assert again.identity == MANIFEST.identity
    assert again.num_rows == 4
    assert again.coverage == 0.75


def test_a_stores_identity_is_a_hash_of_its_name_fingerprint_skipped_rows_and_classes():
    assert MANIFEST.identity == digest(b'["s","f",[2],["cpu"]]')
    for changed in ({"store": "t"}, {"fingerprint": "g"}, {"skipped_rows": ()}, {"numerics": ()}):
        assert replace(MANIFEST, **changed).identity != MANIFEST.identity
    two = replace(MANIFEST, skipped_rows=(2, 3), numerics=("cpu", "cuda"))
    turned = replace(MANIFEST, skipped_rows=(3, 2), numerics=("cuda", "cpu"))
    assert two.identity == turned.identity == digest(b'["s","f",[2,3],["cpu","cuda"]]')


def test_boundaries_payloads_and_facts_are_not_in_an_identity():
    halves = (
        Record(Shard(0, 0, 1), "bb", 3, {"rows": 1}),
        Record(Shard(1, 1, 4), "cc", 9, {"rows": 3}),
    )
    assert replace(MANIFEST, records=halves).identity == MANIFEST.identity


def test_a_manifest_under_another_stores_name_is_refused(storage):
    book = ledger(storage, [2])
    commit(book, book.shards[0], lambda p: p.write_bytes(b"rows"))
    book.publish()
    other = ledger(storage, [2], store="other")
    data = book.storage.read(f"{book.folder}/manifest.json")
    assert other.storage.create(f"{other.folder}/manifest.json", data)
    with pytest.raises(CorruptError, match="found one of toy/"):
        read_manifest(other.storage, "other", other.fingerprint)


TORN = [b'{"event": "quarantined", "ro', b"\0\0\0\0", b"\xff\xfe{", b"[" * 5000, b"7" * 5000]


@pytest.mark.parametrize("torn", TORN)
def test_torn_lines_are_passed_over(torn):
    data = b'{"n": 1}\n' + torn + b'\n\n{"n": 2}\n' + torn
    assert events(data) == [{"n": 1}, {"n": 2}]
