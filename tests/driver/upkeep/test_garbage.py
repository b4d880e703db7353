"""What holds a name that gc would delete, by hand."""

import os
import time

import pytest
from tiny_workspace import run

from raypipe.driver.upkeep.gc import _is_left_over, delete, find_garbage
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.driver.workspace import Workspace
from raypipe.storage.generations import Generation, claimed, claims, create_generation
from raypipe.storage.holder import process_label
from raypipe.storage.lease import acquire
from raypipe.storage.ledger import Ledger, work_label
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec


@pytest.fixture
def work(tmp_path):
    return Workspace(tmp_path / "work")


def store(work, name, number, payload=b"rows"):
    """A complete store of one shard; its folder."""
    ledger = Ledger(work.stores, name, StageSpec("toy", 1, {"number": number}), [Shard(0, 0, 2)])
    path = ledger.storage.scratch() / "payload"
    path.write_bytes(payload)
    ledger.commit(Shard(0, 0, 2), path, {"rows": 2})
    ledger.publish()
    return ledger.folder


def age(work, hours):
    when = time.time() - 3600 * hours
    for path in work.stores.root.rglob("*"):
        if path.is_file():
            os.utime(path, (when, when))


def test_what_is_older_than_a_day_may_go_with_what_it_weighs(work):
    folder = store(work, "a", 1)
    age(work, 23.9)
    assert find_garbage(work).names == []
    age(work, 24.1)
    found = find_garbage(work)
    sizes = [(work.stores.root / name).stat().st_size for name in found.names]
    assert found.num_bytes == sum(sizes) > 0 and found.strangers == []
    last = [name for name in found.names if name.startswith(folder)]
    assert last[0] == f"{folder}/manifest.json" and last[-1] == f"{folder}/spec.json"
    assert found.names[-1].startswith("blobs/")
    blob = work.stores.root / found.names[-1]
    os.utime(blob)
    assert found.names[-1] not in find_garbage(work).names  # a young payload stays
    delete(work, found)
    assert find_garbage(work).names == [] and blob.exists()  # it was used again since
    age(work, 25)
    delete(work, find_garbage(work))
    assert not blob.exists()


def test_a_claim_holds_its_stores_until_its_number_is_used(work):
    """Also that of a killed process, which could be paused as well."""
    folder = store(work, "a", 1)
    with claimed(work.stores, Generation("nightly", 1, dict([folder.split("/")]))):
        (left,) = claims(work.stores)
        before = (work.stores.root / left).read_bytes()
    work.stores.replace(left, before)
    age(work, 25)
    assert find_garbage(work).names == []
    assert create_generation(work.stores, Generation("nightly", 1, {}, {}, "beyond a limit"))
    found = find_garbage(work)
    assert left in found.names and f"{folder}/manifest.json" in found.names
    delete(work, found)
    assert claims(work.stores) == [] and not (work.stores.root / folder).exists()


def test_refs_generations_and_leases_hold_a_store_with_its_payload(work):
    held = [store(work, "a", n, payload=b"rows %d" % n) for n in range(4)]
    work.refer(*held[0].split("/"))
    kept = dict([held[1].split("/")])
    create_generation(work.stores, Generation("nightly", 1, kept))
    lease = acquire(work.stores, f"{held[2]}/lease.json")
    age(work, 25)
    found = find_garbage(work)
    assert {name.rsplit("/", 1)[0] for name in found.names if name.startswith("a/")} == {
        held[3],
        f"{held[3]}/shards",
    }
    assert len([name for name in found.names if name.startswith("blobs/")]) == 1
    delete(work, found)
    payloads = [
        path.read_bytes() for path in (work.stores.root / "blobs").rglob("*") if path.is_file()
    ]
    assert sorted(payloads) == [b"rows 0", b"rows 1", b"rows 2"]
    lease.release()


def test_a_source_is_held_until_it_is_forgotten(work):
    before, now = store(work, "a", 1, b"rows 1"), store(work, "a", 2, b"rows 2")
    Workspace(work.folder).refer(*before.split("/"))  # an earlier invocation
    work.refer(*now.split("/"))
    age(work, 25)
    assert find_garbage(work).names == []
    work.forget_sources()
    found = find_garbage(work).names
    assert {name.split("/")[1] for name in found if name.startswith("a/")} == {before.split("/")[1]}
    assert len([name for name in found if name.startswith("blobs/")]) == 1


@pytest.mark.fault(
    11, "what a dead owner left unfinished goes with gc after a day, a living one's stays"
)
def test_what_a_dead_owner_left_goes_when_it_is_old(work):
    folder = store(work, "a", 1)
    work.refer(*folder.split("/"))
    label, gone = work_label(*folder.split("/")), work_label("a", "other")
    root = work.stores.root
    names = [f"tmp/{label}/x", f"nonce/{label}/word", f"tmp/{gone}/x", f"nonce/{gone}/word"]
    lease = acquire(work.stores, f"{folder}/lease.json")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    assert find_garbage(work).names == []
    age(work, 25)
    assert sorted(find_garbage(work).names) == sorted(names[2:])
    lease.release()
    assert set(find_garbage(work).names) >= set(names)


def test_the_lease_of_a_store_that_never_got_its_spec_goes_when_it_is_old(work):
    folder = f"vectors/{'ab' * 16}"
    lease = acquire(work.stores, f"{folder}/lease.json")
    age(work, 25)
    assert find_garbage(work).names == []  # somebody is at work
    lease.release()
    assert find_garbage(work).names == []  # a moment ago
    age(work, 25)
    found = find_garbage(work)
    assert found.strangers == [] and {name.rpartition("/lease")[0] for name in found.names} == {
        folder
    }
    delete(work, found)
    assert find_garbage(work).names == [] and not list(work.stores.names(folder))
    (work.stores.root / "notes" / "mine").mkdir(parents=True)
    (work.stores.root / "notes" / "mine" / "lease.json").write_text("{}")
    age(work, 25)
    assert find_garbage(work).names == []  # no name of a store


def test_files_that_are_none_of_raypipes_hold_what_they_name(work):
    folder = store(work, "a", 1)
    root = work.stores.root
    (manifest,) = root.glob("a/*/manifest.json")
    text = manifest.read_bytes()
    for name in ("top.json", "one/two.json", "a/0/deep/manifest.json", f"{folder}/mine.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    age(work, 25)
    found = find_garbage(work)
    assert set(found.strangers) == {
        "top.json", "one/two.json", "a/0/deep/manifest.json", f"{folder}/mine.txt",
    }  # fmt: skip
    assert f"{folder}/manifest.json" in found.names
    (root / "top.json").write_bytes(text)
    age(work, 25)
    assert not [name for name in find_garbage(work).names if name.startswith("blobs/")]
    (root / f"{folder}/spec.json").chmod(0o644)
    (root / f"{folder}/spec.json").write_text("{")  # whose it was cannot be told: all of it stays
    age(work, 25)
    found = find_garbage(work)
    assert found.names == [] and f"{folder}/manifest.json" in found.strangers


@pytest.mark.slow
def test_a_second_workspace_survives_the_first_ones_gc(root, small_files):
    first, second = root / "work", root / "second"
    run(small_files, second, root / "stores", "stages.dense.depth=3")
    run(small_files, first, root / "stores", "stages.dense.depth=2")
    work = open_workspace(first)
    assert find_garbage(work).names == []  # everything is younger than a day
    garbage = find_garbage(work, spared_seconds=-1)
    gone = {name.split("/")[1] for name in garbage.names if name.startswith("dense.test/")}
    assert len(gone) == 1  # depth 5: the first workspace left it, the second never had it
    delete(work, garbage)
    assert verify(open_workspace(second)) == [] and verify(work) == []
    assert all(
        s["reused"]
        for s in run(small_files, second, root / "stores", "stages.dense.depth=3")[
            "stages"
        ].values()
    )
    again = run(small_files, first, root / "stores")
    assert not again["stages"]["dense.test"]["reused"]


def test_gc_spares_what_a_live_lease_holds(root, small_files):
    run(small_files, root / "work", root / "stores", "stages.dense.depth=2")
    work = open_workspace(root / "work")
    (old,) = {
        n.split("/")[1]
        for n in find_garbage(work, spared_seconds=-1).names
        if n.startswith("dense.test/")
    }
    held = acquire(work.stores, f"dense.test/{old}/lease.json")
    names = find_garbage(work, spared_seconds=-1).names
    assert not [name for name in names if name.startswith(f"dense.test/{old}")]
    held.release()


def test_an_unfinished_file_belongs_to_a_process_or_to_a_store_at_work():
    living = {"store-1"}
    other = "process-1-1-00000000"  # of a place that cannot be seen from here
    gone = process_label().replace(f"process-{os.getpid()}-", "process-99999999-")
    for name, expected in (
        ("tmp/store-1/x", False), ("tmp/store-2/x", True), ("nonce/store-1/word", False),
        ("nonce/store-2/word", True), (f"tmp/{process_label()}/x", False), (f"tmp/{gone}/x", True),
        (f"tmp/{other}/x", False), ("nonce/process-x/word", True), ("tmp/x", False),
        ("blobs/store-2/x", False), ("refs/a/b", False),
    ):  # fmt: skip
        assert _is_left_over(name, living) is expected, name
