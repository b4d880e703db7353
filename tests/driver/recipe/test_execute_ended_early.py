"""Work that ends early leaves nothing half written, and nothing of its successor's is removed."""

import pytest
from small_invocation import Watching

from raypipe.cluster.inline import InlineBackend
from raypipe.cluster.loop import Loop
from raypipe.driver import execute
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.errors import IncompleteError
from raypipe.storage.holder import this_process
from raypipe.storage.lease import Lease


@pytest.mark.fault(
    6, "a job that ends with a killed worker's half file removes it, unless succeeded"
)
@pytest.mark.parametrize("lost", [False, True])
def test_what_workers_left_half_written_goes_when_the_work_ends_early(invocable, monkeypatch, lost):
    folder, recipe = invocable
    waited = []

    def ended(loop):
        (loop._task.ledger.storage.scratch() / "half").write_text("x")
        loop._on_ready({}, this_process())
        monkeypatch.setattr(Lease, "lost", property(lambda lease: lost))
        raise IncompleteError("a shard failed 3 times")

    monkeypatch.setattr(Loop, "run", ended)
    monkeypatch.setattr(InlineBackend, "end_idle", lambda backend: waited.append("idle ended"))
    monkeypatch.setattr(execute, "wait_until_dead", lambda *given: waited.append(given))
    with pytest.raises(IncompleteError):
        run_pipeline(recipe, folder / "w", Options(), watcher=Watching())
    left = [path for path in (folder / "w" / "stores" / "tmp").rglob("*") if path.is_file()]
    assert [path.name for path in left] == (["half"] if lost else [])
    assert waited == ["idle ended", ([this_process()], execute.ENDING_SECONDS)]
