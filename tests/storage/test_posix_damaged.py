"""Payloads whose bytes changed on the disk: found before they are used, each of them."""

import hashlib
import random

import pytest

from raypipe.errors import CorruptError
from raypipe.storage.posix import PosixStorage

CONTENT = random.Random(1).randbytes(4096)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def blob(tmp_path):
    storage = PosixStorage(tmp_path)
    payload = storage.scratch() / "payload"
    payload.write_bytes(CONTENT)
    storage.put(SHA256, payload)
    path = tmp_path / "blobs" / SHA256[:2] / SHA256
    path.chmod(0o644)
    return path


def num_refused(blob, contents):
    refused = 0
    for content in contents:
        blob.write_bytes(content)
        storage = PosixStorage(blob.parent.parent.parent)  # another process
        with pytest.raises(CorruptError, match=SHA256):
            storage.local(SHA256)
        with pytest.raises(CorruptError, match=SHA256):
            storage.check(SHA256)
        refused += 1
    blob.write_bytes(CONTENT)
    assert PosixStorage(blob.parent.parent.parent).local(SHA256).read_bytes() == CONTENT
    return refused


def flipped(number):
    position = random.Random(number).randrange(8 * len(CONTENT))
    data = bytearray(CONTENT)
    data[position // 8] ^= 1 << position % 8
    return bytes(data)


@pytest.mark.fault(10, "200 of 200 flipped bits of a payload are found before it is used")
def test_every_flipped_bit_is_found(blob):
    assert num_refused(blob, map(flipped, range(200))) == 200


@pytest.mark.fault(11, "50 of 50 cut payloads, the empty one among them, are never read")
def test_every_cut_is_found(blob):
    ends = [0, 1, len(CONTENT) - 1, *random.Random(2).sample(range(2, len(CONTENT) - 1), 47)]
    assert num_refused(blob, (CONTENT[:end] for end in ends)) == 50
    assert num_refused(blob, [CONTENT + b"\0"]) == 1
