"""What a worker's death is, by Ray's own errors."""

import pytest
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayActorError

from raypipe.cluster.backend import Lost, OutOfMemory, Preempted
from raypipe.cluster.ray_deaths import death


@pytest.mark.parametrize(
    ("message", "dead", "kind"),
    [
        ("The actor died.", False, Lost),
        ("The actor died.", True, Preempted),
        ("The actor died because its node has died.", False, Preempted),
    ],
)
def test_a_worker_whose_node_is_gone_was_preempted_and_any_other_is_lost(message, dead, kind):
    found = death(3, RayActorError(error_msg=message), node_is_dead=dead)
    assert found == kind(3, message)


def test_ray_may_say_itself_that_a_node_was_taken(monkeypatch):
    error = ActorDiedError()
    monkeypatch.setattr(type(error), "preempted", True, raising=False)
    assert isinstance(death(1, error, node_is_dead=False), Preempted)


def test_of_a_want_of_memory_the_first_line_is_told_even_where_the_node_is_gone_too():
    error = OutOfMemoryError("1 worker(s) were killed\nTop 10 memory users")
    assert death(2, error, node_is_dead=True) == OutOfMemory(2, "1 worker(s) were killed")
