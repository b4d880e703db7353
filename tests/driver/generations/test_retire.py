"""Which generations go: the oldest, unless somebody reads them."""

import pytest

from raypipe.driver.generations import retire as retiring
from raypipe.driver.generations.retire import files_of, retire_older, unread_generations
from raypipe.storage.generations import (
    Generation,
    create_generation,
    generation_numbers,
    held_generation,
    reader_leases,
    record_numbers,
)
from raypipe.storage.holder import Life, Process
from raypipe.storage.lease import LeaseState, acquire, lease_state
from raypipe.storage.posix import PosixStorage


@pytest.fixture
def storage(tmp_path):
    storage = PosixStorage(tmp_path / "stores")
    for number in range(1, 6):
        assert create_generation(storage, Generation("nightly", number, {"a": str(number)}))
    return storage


class Clock:
    """Time that passes only in sleeps."""

    def __init__(self, monkeypatch, then=lambda now: None):
        self.now, self._then = 0.0, then
        monkeypatch.setattr(retiring.time, "monotonic", lambda: self.now)

    def sleep(self, seconds):
        self.now += seconds
        self._then(self.now)


@pytest.mark.parametrize(
    ("keep", "left"), [(5, [1, 2, 3, 4, 5]), (9, [1, 2, 3, 4, 5]), (3, [3, 4, 5]), (1, [4, 5])]
)
def test_the_newest_are_kept_and_never_fewer_than_two(storage, keep, left):
    assert retire_older(storage, "nightly", keep) == [n for n in range(1, 6) if n not in left]
    assert generation_numbers(storage, "nightly") == left


@pytest.mark.parametrize(
    ("keep", "left"), [(5, [1, 2, 3, 4, 5, 6, 7, 8, 9]), (3, [3, 4, 5, 7, 8, 9]), (2, [4, 5, 8, 9])]
)
def test_refused_ones_go_with_the_generations_of_their_age_and_are_never_more_than_these(
    storage, keep, left
):
    for number in range(6, 10):
        assert create_generation(storage, Generation("nightly", number, {"a": "r"}, {}, "beyond"))
    retire_older(storage, "nightly", keep)
    assert record_numbers(storage, "nightly") == left
    assert create_generation(storage, Generation("nightly", 10, {"a": "10"}))
    retire_older(storage, "nightly", 2)
    assert record_numbers(storage, "nightly") == [n for n in (5, *range(8, 11)) if n in (*left, 10)]


def test_nothing_is_waited_for_where_nothing_is_retired(storage, monkeypatch):
    clock = Clock(monkeypatch)
    assert unread_generations(storage, sleep=clock.sleep) == [] and clock.now == 0


def test_a_generation_that_is_read_stays_until_its_reader_ends(storage, monkeypatch):
    clock = Clock(monkeypatch)
    with held_generation(storage, "nightly", 2):
        retire_older(storage, "nightly", 3)
        assert unread_generations(storage, sleep=clock.sleep) == [("nightly", 1)]
    assert clock.now == retiring.GRACE_SECONDS
    assert unread_generations(storage, sleep=clock.sleep) == [("nightly", 1), ("nightly", 2)]
    files = files_of(storage, [("nightly", 1), ("nightly", 2)])
    assert [name.removeprefix("generations/nightly/") for name in files] == [
        "0000001.json",
        "0000002.json",
    ]
    for file in files:
        storage.delete(file)
    assert unread_generations(storage, sleep=lambda seconds: pytest.fail("nothing is left")) == []


def test_a_reader_that_comes_in_the_moment_of_grace_is_seen(storage, monkeypatch):
    late = []

    def read(now):
        late.append(acquire(storage, f"generations/nightly/0000001.readers/{'0' * 16}.json"))

    clock = Clock(monkeypatch, read)
    retire_older(storage, "nightly", 4)
    assert unread_generations(storage, sleep=clock.sleep) == []
    late[0].release()
    assert unread_generations(storage, sleep=lambda seconds: None) == [("nightly", 1)]


@pytest.mark.parametrize("renews_at", [None, 300.0, 599.0])
def test_a_reader_out_of_sight_is_dead_after_ten_minutes_without_a_renewal(
    storage, monkeypatch, renews_at
):
    with held_generation(storage, "nightly", 1):
        (label,) = reader_leases(storage, "nightly", 1)
        state = lease_state(storage, label)
    states = {"counter": state.counter}
    monkeypatch.setattr(Process, "life", lambda process: Life.UNKNOWN)
    monkeypatch.setattr(retiring, "reader_leases", lambda stores, name, number: [label])

    def seen(stores, name):
        return LeaseState(1, state.holder, states["counter"], (), False)

    def renewed(now):
        if renews_at is not None and now >= retiring.GRACE_SECONDS + renews_at:
            states["counter"] += 1

    monkeypatch.setattr(retiring, "lease_state", seen)
    clock = Clock(monkeypatch, renewed)
    retire_older(storage, "nightly", 4)
    unread = unread_generations(storage, sleep=clock.sleep)
    assert unread == ([("nightly", 1)] if renews_at is None else [])
    waited = clock.now - retiring.GRACE_SECONDS
    assert waited == (600 if renews_at is None else renews_at)
