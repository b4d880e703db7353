"""The stores from which rows may be copied, in the order in which they are tried."""

import pytest

from raypipe.driver.execute import older_stores
from raypipe.driver.workspace import Workspace
from raypipe.names import Role, of_stage
from raypipe.storage.generations import Generation
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard, seal
from raypipe.storage.spec import StageSpec


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path / "work")


def spec(number, reuse_key="same"):
    return StageSpec("toy", 1, {"number": number}, reuse_key=reuse_key)


def store(workspace, name, number, *, reuse_key="same", complete=True):
    ledger = Ledger(workspace.stores, str(name), spec(number, reuse_key), [Shard(0, 0, 1)])
    if complete:
        file = ledger.storage.scratch() / "file"
        file.write_text("x")
        ledger.commit(ledger.shards[0], file, {"rows": 1})
        ledger.publish()
    return ledger.fingerprint


def numbers(workspace, name, base=None, now=99):
    found = older_stores(workspace.stores, workspace.id, base, name, spec(now))
    fingerprints = {spec(number).fingerprint(): number for number in range(100)}
    return [fingerprints[stored.manifest.fingerprint] for stored in found]


NAME = of_stage("vectors")


def test_the_current_generation_comes_before_refs_and_refs_before_sources(workspace):
    made = [store(workspace, NAME, number) for number in range(3)]
    Workspace(workspace.folder).refer("vectors", made[0])  # an earlier invocation
    workspace.refer("vectors", made[1])
    assert numbers(workspace, NAME) == [1, 0]
    base = Generation("nightly", 4, {"vectors": made[2], "tokens": "x"})
    assert numbers(workspace, NAME, base) == [2, 1, 0]
    assert numbers(workspace, NAME, Generation("nightly", 4, {"vectors": made[0]})) == [0, 1]


def test_incomplete_stores_other_settings_and_the_store_itself_are_left_out(workspace):
    Workspace(workspace.folder).refer("vectors", store(workspace, NAME, 1, complete=False))
    assert numbers(workspace, NAME) == []
    Workspace(workspace.folder).refer("vectors", store(workspace, NAME, 2, reuse_key="other"))
    assert numbers(workspace, NAME) == []
    workspace.refer("vectors", store(workspace, NAME, 3))
    assert numbers(workspace, NAME, now=3) == [] and numbers(workspace, NAME) == [3]
    workspace.stores.delete(f"vectors/{spec(3, 'same').fingerprint()}/spec.json")
    assert numbers(workspace, NAME) == []


def test_scores_are_copied_from_every_stage_and_workspace_own_ones_first(workspace, tmp_path):
    names = [of_stage(stage, "test", Role.SCORES) for stage in ("mono", "more", "other")]
    for number, name in enumerate(names):
        workspace.refer(str(name), store(workspace, name, number))
    workspace.refer("vectors", store(workspace, NAME, 9))
    assert numbers(workspace, names[1]) == [1, 0, 2]
    base = Generation("nightly", 1, {str(names[0]): store(workspace, names[0], 7)})
    assert numbers(workspace, names[1], base) == [1, 7, 0, 2]
    other = Workspace(tmp_path / "second", str(tmp_path / "work" / "stores"))
    assert numbers(other, names[2]) == [0, 1, 2] and numbers(other, names[2], now=2) == [0, 1]
    other.refer(str(names[2]), store(other, names[2], 5))
    assert numbers(other, names[2]) == [5, 0, 1, 2]
    (damaged,) = (n for n in workspace.stores.names("refs/") if workspace.id in n)
    for data in (b"{", seal({"format": 99})):
        (tmp_path / "work" / "stores" / damaged).write_bytes(data)
        assert numbers(other, names[2]) == [5]
