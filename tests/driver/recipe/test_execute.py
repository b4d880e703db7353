import json
from types import SimpleNamespace

import pytest

from raypipe.cluster.worker import worker_facts
from raypipe.driver.execute import Workers, _published
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
    workspace = Workspace(tmp_path / "w")
    manifest = SimpleNamespace(store="x", fingerprint="f")
    assert _published(workspace, manifest) == {}
    log = tmp_path / "w" / "stores" / "x" / "f" / "attempts.jsonl"
    log.parent.mkdir(parents=True)
    lines = [{"event": "published", "working_seconds": 1.5}, {"event": "other"}]
    for more, expected in (
        ([], 1.5),
        ([{"event": "published", "working_seconds": 2.5}, {"event": "x"}], 2.5),
        ([{"event": "published", "working_seconds": None}], None),
    ):
        log.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]))
        assert _published(workspace, manifest)["working_seconds"] == expected
    log.write_text('{"event": "other"}\n')
    assert _published(workspace, manifest) == {}
