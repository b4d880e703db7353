"""A toy task whose shards one worker computes in this process."""

from dataclasses import dataclass, field

import pytest
from numbers_stage import SHARDS

from raypipe.cluster.backend import Task
from raypipe.stages.stage import Needs, Payload, Site
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec


@dataclass
class Numbers:
    """Writes its rows' numbers; a batch is two rows."""

    spec: StageSpec = field(default_factory=lambda: StageSpec("numbers", 1, {"x": 1}))
    fault: Exception | None = None
    seen: list = field(default_factory=list)

    def open(self, site):
        self.site = site
        if self.fault is not None:
            raise self.fault
        return {"numerics": "toy", "python": "told by the stage"}

    def run(self, shard, skip, beat):
        if self.fault is not None:
            raise self.fault
        kept = [row for row in range(shard.start, shard.stop) if row not in skip]
        for start in range(0, len(kept), 2):
            beat(kept[start : start + 2])
            self.seen.append(self.look())
        path = self.site.scratch / f"{shard.index}.txt"
        path.write_text(" ".join(map(str, kept)))
        return Payload(path, {"rows": len(kept)})

    def look(self):
        return None


@pytest.fixture
def work(tmp_path):
    """A task in a folder of its own, its stage opened."""
    storage, stage = PosixStorage(tmp_path / "stores"), Numbers()
    stage.needs = Needs()
    ledger = Ledger(storage, "numbers", stage.spec, SHARDS)
    (tmp_path / "scratch").mkdir()
    stage.open(Site(tmp_path / "scratch"))
    return Task(stage, ledger)
