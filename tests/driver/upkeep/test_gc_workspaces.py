from tiny_workspace import run

from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.storage.lease import acquire


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
