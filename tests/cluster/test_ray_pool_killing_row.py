import json
import os
import signal
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

from raypipe.cluster.backend import Task
from raypipe.cluster.loop import run
from raypipe.cluster.report import Limits
from raypipe.errors import LimitError
from raypipe.stages.stage import Needs, Opened, Payload
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec


@dataclass
class Killing:
    """Writes its rows; dies over some of them."""

    poison: frozenset[int]
    skips_rows = True
    needs = Needs()
    spec = StageSpec("killing", 1)

    def shards(self, sizing):
        return [Shard(0, 0, 40), Shard(1, 40, 80)]

    def open(self, site):
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch, shard, skip, beat):
        kept = [row for row in range(shard.start, shard.stop) if row not in set(skip)]
        for start in range(0, len(kept), 8):
            beat(kept[start : start + 8])
            if self.poison & set(kept[start : start + 8]):
                os.kill(os.getpid(), signal.SIGKILL)
        path = scratch / f"{shard.index}.npy"
        np.save(path, np.array(kept))
        return Payload(path, {"rows": shard.num_rows})


@pytest.mark.fault(
    16, "1 killing row of 80 on Ray: it alone is in quarantine, after at most 6 deaths"
)
@pytest.mark.ray
@pytest.mark.slow
def test_on_ray_a_row_that_kills_its_worker_is_found_and_the_rest_finishes(tmp_path):
    from raypipe.cluster import ray_start
    from raypipe.cluster.ray_pool import RayBackend

    storage = PosixStorage(tmp_path / "stores")
    stage = Killing(frozenset({53}))
    ledger = Ledger(storage, "killing", stage.spec, stage.shards(None))
    local = ray_start.start_local(num_cpus=2, num_gpus=0)
    backend = RayBackend(local=local)
    try:
        report = run(Task(stage, ledger), backend, Limits(num_actors=2))
    finally:
        backend.close()
    assert report.num_lost <= 2 + 3 + 1
    with pytest.raises(LimitError, match=r"first rows \[53\]"):
        ledger.publish()
    manifest = ledger.publish(max_failed_rows=1)
    assert manifest.skipped_rows == (53,) and manifest.coverage == 1 - 1 / 80
    rows = [np.load(storage.local(record.sha256)) for record in manifest.records]
    assert np.concatenate(rows).tolist() == [row for row in range(80) if row != 53]
    events = (tmp_path / "stores" / ledger.folder / "attempts.jsonl").read_text().splitlines()
    kept = pq.read_table(tmp_path / "stores" / ledger.folder / "quarantine.parquet").to_pylist()
    assert [row["row"] for row in kept] == [53] and "died" in kept[0]["reason"]
    (told,) = [json.loads(e) for e in events if '"quarantined"' in e]
    assert told["row"] == 53 and "died" in told["reason"]
    assert not list((tmp_path / "stores").rglob("*.rows"))
