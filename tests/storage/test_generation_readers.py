"""Whoever reads a generation leaves a lease; whoever retires it is seen, and sees the lease."""

import errno

import pytest

from raypipe.errors import InputError
from raypipe.storage import generations as generation_readers
from raypipe.storage.generations import (
    Generation,
    create_generation,
    held_generation,
    reader_leases,
    retire,
)


def made(storage, *numbers):
    for number in numbers:
        generation = Generation("nightly", number, {"tokens": f"fp{number}"}, {"made": "now"})
        assert create_generation(storage, generation)


def test_a_reader_leaves_a_lease_while_it_reads_and_nothing_after(storage):
    made(storage, 1, 2)
    with held_generation(storage, "nightly") as found:
        assert found.number == 2
        assert len(reader_leases(storage, "nightly", 2)) == 1
        with held_generation(storage, "nightly", 1) as other:
            assert other.number == 1 and len(reader_leases(storage, "nightly", 1)) == 1
    assert list(storage.names("generations")) == [
        "generations/nightly/0000001.json",
        "generations/nightly/0000002.json",
    ]


def test_a_generation_retired_while_a_lease_is_created_is_not_read(storage, monkeypatch):
    made(storage, 1, 2)
    acquire = generation_readers.acquire

    def retired_meanwhile(place, name):
        lease = acquire(place, name)
        if "0000002" in name:
            retire(storage, "nightly", 2)
        return lease

    monkeypatch.setattr(generation_readers, "acquire", retired_meanwhile)
    with held_generation(storage, "nightly") as found:
        assert found.number == 1  # with two kept this would be a newer one
    assert reader_leases(storage, "nightly", 2) == []
    with (
        pytest.raises(InputError, match="generation 2"),
        held_generation(storage, "nightly", 2),
    ):
        pass


@pytest.mark.parametrize("reason", "EACCES EPERM EROFS ENOSPC EDQUOT".split())
def test_a_reader_that_cannot_write_reads_without_a_lease(storage, monkeypatch, reason):
    made(storage, 1)

    def refuse(place, name):
        raise OSError(getattr(errno, reason), "no", name)

    monkeypatch.setattr(generation_readers, "acquire", refuse)
    with held_generation(storage, "nightly") as found:
        assert found.number == 1 and reader_leases(storage, "nightly", 1) == []


def test_storage_that_fails_is_not_taken_for_one_that_may_not_be_written(storage, monkeypatch):
    made(storage, 1)

    def fail(place, name):
        raise OSError(errno.EIO, "no", name)

    monkeypatch.setattr(generation_readers, "acquire", fail)
    with pytest.raises(OSError, match="no"), held_generation(storage, "nightly"):
        pass


def test_an_error_of_a_reader_passes_and_its_lease_goes(storage):
    made(storage, 1)
    with pytest.raises(RuntimeError), held_generation(storage, "nightly"):
        raise RuntimeError
    assert reader_leases(storage, "nightly", 1) == []


def test_before_the_first_generation_a_reader_is_told_how_to_make_one(storage):
    with pytest.raises(InputError, match="raypipe reindex"), held_generation(storage, "nightly"):
        pass
