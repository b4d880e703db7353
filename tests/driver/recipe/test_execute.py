import json

import pytest
from small_invocation import Watching

from raypipe.cluster.loop import Loop
from raypipe.cluster.worker import InlineBackend, worker_facts
from raypipe.driver import execute
from raypipe.driver.execute import StoreCost, WorkersOfStore, read_cost
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.workspace import Workspace
from raypipe.errors import IncompleteError, InputError
from raypipe.storage.holder import this_process
from raypipe.storage.lease import Lease


def test_workers_that_differ_in_what_could_change_bytes_are_refused():
    here, workers = worker_facts()["python"], WorkersOfStore("x", lease=None)
    workers.ready({"python": here, "torch": "2", "ray": "1", "tokenizers": "5"}, None)
    workers.ready({"python": here, "ray": "2"}, None)
    for key, value in (("torch", "3"), ("tokenizers", "6"), ("python", "3.12")):
        with pytest.raises(InputError, match=f"x: a worker has {key} {value}, expected "):
            workers.ready({key: value}, None)


def test_a_stores_time_is_of_its_last_publication(tmp_path):
    stores = Workspace(tmp_path / "w").stores
    assert read_cost(stores, "x", "f") == StoreCost(None, 0)
    log = tmp_path / "w" / "stores" / "x" / "f" / "attempts.jsonl"
    log.parent.mkdir(parents=True)
    lines = [{"event": "published", "working_seconds": 1.5}, {"event": "other"}]
    for more, expected in (
        ([], StoreCost(1.5, 0)),
        (
            [{"event": "published", "working_seconds": 2.5, "copied": 3}, {"event": "x"}],
            StoreCost(2.5, 3),
        ),
        ([{"event": "published", "working_seconds": None}], StoreCost(None, 0)),
    ):
        log.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]))
        assert read_cost(stores, "x", "f") == expected
    log.write_text('{"event": "other"}\n')
    assert read_cost(stores, "x", "f") == StoreCost(None, 0)


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
