import json

import pytest

from raypipe.cluster.worker import worker_facts
from raypipe.driver.execute import StoreCost, Workers, read_cost
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError


def test_workers_that_differ_in_what_could_change_bytes_are_refused():
    here, workers = worker_facts()["python"], Workers("x", lease=None)
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
