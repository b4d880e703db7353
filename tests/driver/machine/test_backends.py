import threading

import pytest

from raypipe.driver.place import LazyBackends


class Machine:
    """A backend with room for so many actors."""

    def __init__(self, room):
        self.room, self.closed = room, 0

    def capacity(self, needs):
        return self.room

    def close(self):
        self.closed += 1


def lazy(machine, actors):
    starts = []

    def start():
        starts.append(threading.current_thread().name)
        if isinstance(machine, BaseException):
            raise machine
        return machine

    return LazyBackends(start, actors), starts


@pytest.mark.parametrize(
    ("actors", "room", "shards", "expected"),
    [(4, 9, 9, 4), (9, 4, 9, 4), (9, 9, 4, 4), (3, 0, 5, 1), (1, 1, 1, 1)],
)
def test_actors_are_as_many_as_asked_fit_and_have_work(actors, room, shards, expected):
    backends, starts = lazy(Machine(room), actors)
    assert starts == []
    assert backends.limits(None, shards).num_actors == expected
    backends.close()


def test_a_backend_starts_once_apart_and_is_closed_once():
    machine, before = Machine(1), set(threading.enumerate())
    backends, starts = lazy(machine, 1)
    backends.warm()
    assert backends.get() is backends.get() is machine
    assert starts == ["start backend"] and machine.closed == 0
    (thread,) = [t for t in threading.enumerate() if t not in before]
    assert thread.name == "start backend"
    assert thread.daemon  # it lives as long as the backend does
    backends.close()
    backends.close()
    thread.join()
    assert machine.closed == 1
    never, starts = lazy(machine, 1)
    never.close()
    assert starts == [] and machine.closed == 1


def test_what_ends_a_start_is_told_to_each_who_asks():
    backends, _ = lazy(OSError("no room"), 1)
    for _ in range(2):
        with pytest.raises(OSError, match="no room"):
            backends.get()
    backends.close()
