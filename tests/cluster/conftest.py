"""A toy task whose shards one worker computes in this process; Ray on paper."""

from dataclasses import dataclass, field

import pytest
from numbers_stage import SHARDS
from ray_on_paper import OnPaper

from raypipe.cluster import ray_pool, ray_processes
from raypipe.cluster.backend import Task
from raypipe.cluster.ray_processes import IdleActors
from raypipe.stages.stage import Needs, Opened, Payload, Site, Stage
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec


@dataclass
class Numbers(Stage):
    """Writes its rows' numbers; a batch is two rows."""

    spec: StageSpec = field(default_factory=lambda: StageSpec("numbers", 1, {"x": 1}))
    fault: Exception | None = None
    seen: list = field(default_factory=list)
    needs: Needs = Needs()

    def shards(self, sizing): ...

    def open(self, site):
        self.site = site
        if self.fault is not None:
            raise self.fault
        return Opened(self.write, {"numerics": "toy", "python": "told by the stage"})

    def write(self, shard, skip, beat):
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
    """A task in a folder of its own."""
    storage, stage = PosixStorage(tmp_path / "stores"), Numbers()
    ledger = Ledger(storage, "numbers", stage.spec, SHARDS)
    return Task(stage, ledger)


@pytest.fixture
def opened(work, tmp_path):
    """Its stage in a worker."""
    (tmp_path / "scratch").mkdir()
    return work.stage.open(Site(tmp_path / "scratch"))


@pytest.fixture
def paper(monkeypatch):
    """Ray on paper, in the place of Ray.

    Processes that still wait when the test ends are ended on paper too: a timer that ended them
    later would call the real Ray, which starts itself when it is called.
    """
    found, made = OnPaper(), []

    class Ended(IdleActors):
        def __init__(self, *given, **settings):
            super().__init__(*given, **settings)
            made.append(self)

    for module in (ray_pool, ray_processes):
        monkeypatch.setattr(module, "ray", found)
    monkeypatch.setattr(ray_processes, "Actor", found)
    monkeypatch.setattr(ray_processes, "IdleActors", Ended)
    yield found
    for idle in made:
        idle.end()
