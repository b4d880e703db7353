"""What stands for somebody else is left alone: a successor's lease, another host's files."""

import dataclasses

import pytest
from patience import until

from raypipe.storage import lease as lease_module
from raypipe.storage.holder import this_process
from raypipe.storage.lease import acquire, lease_state
from raypipe.storage.records import seal

NAME = "toy/f/lease.json"


SUCCESSOR = dataclasses.replace(this_process(), host="elsewhere")


def claim(storage):
    """Another host's process takes the lease over."""
    storage.create(f"{NAME}.d/0000002.json", seal({"holder": SUCCESSOR.to_json()}))


def renew(storage):
    """And renews it."""
    body = {"generation": 2, "counter": 7, "holder": SUCCESSOR.to_json()}
    storage.replace(NAME, seal({**body, "processes": [], "released": False}))


@pytest.mark.fault(13, "a holder that was succeeded knows it")
def test_a_lost_lease_that_is_given_back_leaves_the_successors_bytes(storage, monkeypatch):
    # A shorter interval: the rule is the same and the test is quick.
    monkeypatch.setattr(lease_module, "RENEW_SECONDS", 0.05)
    held = acquire(storage, NAME)
    claim(storage)
    until(lambda: held.lost)
    held._thread.join()  # its last renewal is past
    renew(storage)
    before = storage.read(NAME)
    held.release()
    assert storage.read(NAME) == before
    found = lease_state(storage, NAME)
    assert (found.generation, found.counter, found.released) == (2, 7, False)
    assert found.holder.host == "elsewhere"


def test_a_lease_given_back_before_the_takeover_was_noticed_leaves_the_successors_bytes(storage):
    held = acquire(storage, NAME)
    claim(storage)
    renew(storage)
    before = storage.read(NAME)
    held.release()
    assert storage.read(NAME) == before and held.lost


@pytest.mark.fault(13, "and writes nothing, whatever it is asked")
@pytest.mark.parametrize("takeovers", [1, 3])
def test_a_holder_that_was_succeeded_writes_nothing_whatever_it_is_asked(storage, takeovers):
    held = acquire(storage, NAME)
    for generation in range(2, 2 + takeovers):
        storage.create(f"{NAME}.d/{generation:07d}.json", seal({"holder": SUCCESSOR.to_json()}))
    body = {"generation": 1 + takeovers, "counter": 7, "holder": SUCCESSOR.to_json()}
    storage.replace(NAME, seal({**body, "processes": [], "released": False}))
    before = storage.read(NAME)
    held.add_processes([this_process()])
    assert storage.read(NAME) == before and held.lost
    held.release()
    assert storage.read(NAME) == before
    found = lease_state(storage, NAME)
    assert (found.generation, found.released) == (1 + takeovers, False)
