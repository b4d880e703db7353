import shutil

import pytest

from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.errors import InputError


@pytest.fixture
def stores(small_workspace):
    return small_workspace[0] / "stores"


def test_status_tells_how_far_each_store_is(small_workspace, tmp_path):
    copied = shutil.copytree(small_workspace[0], tmp_path / "w", copy_function=shutil.copy2)
    found = status(copied)
    assert (found.state, found.exit_code, found.reason) == ("complete", 0, "complete")
    assert list(found.stores) == sorted(found.stores)
    assert set(map(str, found.stores.values())) == {"{'state': 'complete'}"}
    (manifest,) = (copied / "stores" / "vectors").glob("*/manifest.json")
    manifest.unlink()
    records = sorted(manifest.parent.glob("shards/*.json"))
    records[0].unlink()
    assert status(copied).stores["vectors"] == {
        "state": "incomplete", "shards": len(records), "done": len(records) - 1,
    }  # fmt: skip
    (manifest.parent / "plan.json").unlink()
    assert status(copied).stores["vectors"] == {"state": "not planned"}
    open_workspace(copied).write_summary({"status": "failed", "exit": 5, "reason": "no space"})
    found = status(copied)
    assert (found.state, found.exit_code, found.reason) == ("failed", 5, "no space")
    (copied / "summary.json").unlink()
    with pytest.raises(InputError, match="no invocation has begun"):
        status(copied)
    for asks in (status, open_workspace):
        with pytest.raises(InputError, match="no workspace"):
            asks(tmp_path)
