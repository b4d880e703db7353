import subprocess
import sys
from pathlib import Path

import pytest
from left_leases import NAME, elsewhere, leave, renew

from raypipe.errors import CorruptError, RefusedError
from raypipe.storage.holder import Life, Process, this_process
from raypipe.storage.lease import acquire, lease_state
from raypipe.storage.records import seal, unseal


def test_a_process_is_not_kept_alive_by_its_lease(storage):
    code = (
        "from raypipe.storage.lease import acquire; "
        "from raypipe.storage.root import open_storage; "
        f"held = acquire(open_storage({storage.uri!r}), {NAME!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    found = lease_state(storage, NAME)
    assert found.life() is Life.DEAD and not found.released


def test_what_stands_tells_generation_holder_processes_and_release(storage):
    assert lease_state(storage, NAME) is None
    held = acquire(storage, NAME)
    found = lease_state(storage, NAME)
    assert (found.generation, found.holder, found.released) == (1, this_process(), False)
    assert found.processes == () and found.life() is Life.ALIVE
    other = Process("h", "b", "n", 7, 1.0)
    held.add_processes([other])
    held.add_processes([other])
    again = lease_state(storage, NAME)
    assert again.processes == (other,) and again.counter > found.counter
    held.release()
    last = lease_state(storage, NAME)
    assert last.released and last.life() is Life.DEAD and not again.released
    assert (last.generation, last.counter) == (again.generation, again.counter + 1)
    assert not held.lost


def test_every_claim_is_kept_so_that_each_holder_before_knows_it_was_succeeded(storage):
    for generation in range(1, 6):
        held = acquire(storage, NAME)
        assert held.generation == generation
        held.release()
    claims = [Path(name).stem for name in storage.names("") if ".json.d/" in name]
    assert claims == [f"{generation:07d}" for generation in range(1, 6)]


def test_a_damaged_renewal_guards_nothing_and_a_damaged_claim_is_refused(storage):
    acquire(storage, NAME).release()
    storage.replace(NAME, b"{}")
    found = lease_state(storage, NAME)
    assert (found.generation, found.counter, found.released) == (1, 0, False)
    storage.replace(f"{NAME}.d/0000001.json", b"{}")
    with pytest.raises(CorruptError):
        lease_state(storage, NAME)


def test_a_claim_beyond_the_renewal_is_the_newest(storage):
    held = acquire(storage, NAME)
    held.release()
    newer = Process("elsewhere", "b", "n", 7, 1.0)
    storage.create(f"{NAME}.d/0000002.json", seal({"holder": newer.to_json(), "processes": []}))
    found = lease_state(storage, NAME)
    assert (found.generation, found.holder, found.counter) == (2, newer, 0)
    assert found.life() is Life.UNKNOWN and found.processes == ()


def test_one_of_whom_nothing_is_known_is_watched_and_refused_when_it_renews(storage):
    leave(storage, elsewhere())

    def renews(found):
        assert (found.generation, found.counter) == (1, 5)
        renew(storage, elsewhere(), 6)

    with pytest.raises(RefusedError, match=r"process \d+ on elsewhere is working"):
        acquire(storage, NAME, watch_seconds=600, on_watch=renews)

    def releases(found):
        renew(storage, elsewhere(), 7, released=True)

    held = acquire(storage, NAME, watch_seconds=600, on_watch=releases)
    assert held.generation == 2
    held.release()
    assert unseal(NAME, storage.read(NAME))["generation"] == 2
