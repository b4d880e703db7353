import pytest

from raypipe.storage.holder import label_is_dead, process_label
from raypipe.storage.posix import PosixStorage


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(tmp_path)


def another_place(label):
    """The label as another host would write it, of a process that does not live here."""
    kind, _, start, place = label.split("-")
    return f"{kind}-999999999-{start}-{'0' * len(place)}"


def test_a_label_of_another_host_is_never_dead():
    own = process_label()
    assert not label_is_dead(own)
    assert not label_is_dead(another_place(own))
    kind, pid, start, place = own.split("-")
    assert label_is_dead(f"{kind}-999999999-{start}-{place}")
    assert label_is_dead(f"{kind}-{pid}-{int(start) + 1}-{place}"), "the id was used again"
    assert not label_is_dead("store-1-2-3") and not label_is_dead("toy")


@pytest.mark.parametrize("owner", [None, "store"])
def test_sweep_leaves_what_another_hosts_process_makes(storage, owner):
    label = another_place(process_label())
    (PosixStorage(storage.root, label).scratch() / "half").write_bytes(b"x")
    (PosixStorage(storage.root, owner).scratch() / "half").write_bytes(b"x")
    PosixStorage(storage.root, owner).sweep()
    (left,) = [path for path in storage.root.rglob("half")]
    assert left.relative_to(storage.root).parts[:2] == ("tmp", label)
