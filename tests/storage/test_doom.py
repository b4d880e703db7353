"""Marks of gc, and those who wait for them."""

import sys
import time
from types import SimpleNamespace

import pytest

from raypipe.errors import RefusedError
from raypipe.storage import cleanup as doom_module
from raypipe.storage.cleanup import doom, doomed_places, spare, wait_for_gc
from raypipe.storage.records import digest


@pytest.fixture
def meanwhile(monkeypatch):
    """A function that has an action done while somebody waits for gc, once it begins to wait."""

    def done(action):
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: action())
        monkeypatch.setattr(doom_module, "time", clock)

    return done


def test_what_is_not_marked_is_used_at_once(storage):
    assert not wait_for_gc(storage, "tokens/f") and doomed_places(storage) == []


def test_who_meets_a_mark_waits_until_it_goes(storage, meanwhile):
    doom(storage, "tokens/f")
    assert doomed_places(storage) == ["tokens/f"]
    meanwhile(lambda: spare(storage, "tokens/f"))
    assert wait_for_gc(storage, "tokens/f") and doomed_places(storage) == []


def test_a_mark_that_stays_is_refused_with_the_remedy(storage):
    doom(storage, "tokens/f")
    with pytest.raises(RefusedError, match="tokens/f: gc is about to .* `raypipe gc DIR --yes`"):
        wait_for_gc(storage, "tokens/f", seconds=0.1)
    assert doomed_places(storage) == ["tokens/f"]


def blob(storage, content=b"x"):
    file = storage.scratch() / "file"
    file.write_bytes(content)
    return digest(content), file


def test_a_payload_stored_again_gets_a_new_time(storage):
    sha256, file = blob(storage)
    storage.put(sha256, file)
    name = f"blobs/{sha256[:2]}/{sha256}"
    before = storage.entry(name).written
    time.sleep(1.1)  # a bucket's times are whole seconds
    storage.put(*blob(storage))
    assert storage.entry(name).written > before


@pytest.mark.parametrize("deleted", [True, False])
def test_a_payload_that_is_marked_is_stored_once_gc_is_done_with_it(storage, meanwhile, deleted):
    sha256, file = blob(storage)
    storage.put(sha256, file)
    doom(storage, f"blobs/{sha256}")

    def end():
        if deleted:
            storage.delete(f"blobs/{sha256[:2]}/{sha256}")
        spare(storage, f"blobs/{sha256}")

    meanwhile(end)
    storage.put(*blob(storage))
    assert doomed_places(storage) == [], "it waited"
    storage.check(sha256)


def test_a_payload_that_gc_took_just_before_its_mark_was_looked_for_is_stored_again(
    storage, monkeypatch
):
    sha256, file = blob(storage)
    storage.put(sha256, file)
    asked = []

    def ended(storage, place):
        if not asked:
            storage.delete(f"blobs/{sha256[:2]}/{sha256}")
        asked.append(place)
        return False

    monkeypatch.setattr(sys.modules[type(storage).__module__], "wait_for_gc", ended)
    storage.put(*blob(storage))
    assert set(asked) == {f"blobs/{sha256}"}
    storage.check(sha256)
