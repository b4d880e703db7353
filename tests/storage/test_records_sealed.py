"""Sealed records: every flipped bit is found."""

import pytest

from raypipe.errors import CorruptError
from raypipe.storage.records import Manifest, Record, Shard, seal, unseal


def test_seal_round_trips_a_body():
    body = {"b": [1, 2], "a": {"c": None, "d": "é"}}
    assert unseal("x.json", seal(body)) == body


def test_every_flipped_bit_of_a_record_is_found():
    sealed = seal({"shard": [0, 0, 10, 0, 0], "sha256": "ab" * 32, "rows": 10})
    for position in range(len(sealed)):
        for bit in range(8):
            damaged = bytearray(sealed)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptError, match="x.json"):
                unseal("x.json", bytes(damaged))


def test_truncated_and_extended_records_are_found():
    sealed = seal({"a": 1})
    for damaged in (sealed[:-1], sealed[:10], b"", sealed + b"\n", b" " + sealed):
        with pytest.raises(CorruptError):
            unseal("x.json", damaged)


def test_manifest_bytes_round_trip_and_name_the_digest():
    records = (Record(Shard(0, 0, 4), "aa", 8, {"rows": 4, "numerics": "cpu"}),)
    manifest = Manifest("s", "f", records, ("cpu",), (2,))
    again = Manifest.from_bytes("m", manifest.to_bytes())
    assert again == manifest
    assert again.digest == manifest.digest
    assert again.num_rows == 4
    assert again.coverage == 0.75
