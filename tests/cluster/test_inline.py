from dataclasses import replace

from numbers_stage import SHARDS

from raypipe.cluster.backend import Done, Failed, Mode, Ready
from raypipe.cluster.inline import InlineBackend
from raypipe.stages.stage import Needs


def test_one_worker_after_the_other_computes_when_it_is_waited_for(work):
    backend = InlineBackend()
    assert (backend.capacity(Needs()), backend.wait(9.0)) == (1, [])
    assert backend.start(work) == 1
    (ready,) = backend.wait(0.0)
    assert isinstance(ready, Ready) and (ready.worker, ready.process) == (1, None)
    assert ready.facts["numerics"] == "toy"
    site = work.stage.site
    assert (site.device, site.threads) == ("cpu", 1) and site.scratch.is_dir()
    backend.submit(1, SHARDS[0], (2,), Mode.PLAIN)
    backend.submit(1, SHARDS[1], (), Mode.PROBE)
    assert work.ledger.pending() == SHARDS, "nothing is computed before it is waited for"
    (done,), (probe,) = backend.wait(1.0), backend.wait(1.0)
    assert isinstance(done, Done) and (done.worker, done.shard) == (1, SHARDS[0])
    assert done.committed.record.facts["skipped_rows"] == [2] and 0 <= done.seconds < 60
    assert isinstance(probe, Done) and probe.committed is None and probe.shard == SHARDS[1]
    assert backend.wait(0.0) == []
    backend.kill(1)
    assert not site.scratch.exists()
    assert backend.start(work) == 2
    assert backend.wait(0.0)[0].worker == 2
    second = work.stage.site.scratch
    assert second.is_dir() and second != site.scratch
    backend.close()
    assert not second.exists()
    before = backend.now()
    assert before <= backend.now() < before + 60
    InlineBackend().close()


def test_of_a_worker_that_is_ended_no_event_follows(work):
    backend = InlineBackend()
    backend.start(work)
    backend.kill(1)
    assert backend.wait(0.0) == [] and not hasattr(work.stage, "site"), "nothing is opened"
    backend.start(work)
    (ready,) = backend.wait(0.0)
    assert ready.worker == 2
    backend.submit(2, SHARDS[0], (), Mode.PLAIN)
    backend.kill(2)
    assert backend.wait(0.0) == [] and work.ledger.pending() == SHARDS


def test_what_a_stage_raises_becomes_an_event(work):
    backend = InlineBackend(device="cuda", threads=7)
    backend.start(work)
    backend.wait(0.0)
    assert (work.stage.site.device, work.stage.site.threads) == ("cuda", 7)
    work.stage.fault = error = ValueError("x")
    backend.submit(1, SHARDS[1], (), Mode.PLAIN)
    assert backend.wait(0.0) == [Failed(1, SHARDS[1], error)]
    assert backend.start(work) == 2
    assert backend.wait(0.0) == [Failed(2, None, error)]


def test_what_a_stage_holds_open_is_closed_once_before_its_files_go(work, monkeypatch):
    seen, whole = [], type(work.stage).open

    def closing(stage, site):
        return replace(whole(stage, site), close=lambda: seen.append(site.scratch.exists()))

    monkeypatch.setattr(type(work.stage), "open", closing)
    backend = InlineBackend()
    backend.start(work)
    backend.wait(0.0)
    backend.release(1)
    backend.close()
    assert seen == [True]
