"""What is durable when a name appears: bytes first, then the link, then the folder.

A killed process cannot show it, since the kernel still writes what it was given; so the calls are
noted in their order.
"""

import hashlib
import os
from pathlib import Path

import pytest

from raypipe.storage.posix import PosixStorage


@pytest.fixture
def calls(monkeypatch):
    """(call, path) of every fsync, link and replace, in order."""
    noted = []
    fsync, link, replace = os.fsync, os.link, os.replace

    def noted_fsync(descriptor):
        noted.append(("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}"))))
        fsync(descriptor)

    def noted_link(source, target, **options):
        noted.append(("link", Path(source), Path(target)))
        link(source, target, **options)

    def noted_replace(source, target):
        noted.append(("replace", Path(source), Path(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    monkeypatch.setattr(os, "replace", noted_replace)
    return noted


def in_order(calls, *wanted):
    """Whether these calls stand there in this order, others between them."""
    left = iter(calls)
    return all(each in left for each in wanted)


def test_a_record_is_synced_linked_and_its_folder_synced(tmp_path, calls):
    PosixStorage(tmp_path).create("toy/f/plan.json", b"{}")
    (link,) = [call for call in calls if call[0] == "link"]
    _, temporary, target = link
    assert target == tmp_path / "toy/f/plan.json"
    assert in_order(calls, ("fsync", temporary), link, ("fsync", target.parent))


@pytest.mark.parametrize("inside", [True, False])
def test_a_blob_is_synced_linked_and_its_folder_synced(tmp_path, calls, inside):
    storage = PosixStorage(tmp_path / "stores")
    payload = (storage.scratch() if inside else tmp_path) / "payload"
    payload.write_bytes(b"rows")
    sha256 = hashlib.sha256(b"rows").hexdigest()
    storage.put(sha256, payload)
    (link,) = [call for call in calls if call[0] == "link"]
    _, temporary, target = link
    assert target == tmp_path / "stores" / "blobs" / sha256[:2] / sha256
    assert (temporary == payload) == inside
    assert in_order(calls, ("fsync", temporary), link, ("fsync", target.parent))


def test_what_is_replaced_is_synced_first(tmp_path, calls):
    PosixStorage(tmp_path).replace("refs/w.json", b"{}")
    (moved,) = [call for call in calls if call[0] == "replace"]
    assert in_order(calls, ("fsync", moved[1]), moved)


def test_a_damaged_blob_is_replaced_by_synced_bytes(tmp_path, calls):
    storage = PosixStorage(tmp_path)
    sha256 = hashlib.sha256(b"rows").hexdigest()
    target = tmp_path / "blobs" / sha256[:2] / sha256
    target.parent.mkdir(parents=True)
    target.write_bytes(b"rowz")
    payload = storage.scratch() / "payload"
    payload.write_bytes(b"rows")
    storage.put(sha256, payload)
    assert target.read_bytes() == b"rows"
    assert in_order(calls, ("fsync", payload), ("replace", payload, target))
