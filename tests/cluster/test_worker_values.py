"""What a worker does with a shard, in this process: words, probes, evidence, what is committed."""

import hashlib
import platform
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import raypipe
from raypipe.cluster.backend import Beating, Done, Failed, Mode, Ready, Task
from raypipe.cluster.inline import InlineBackend
from raypipe.cluster.worker import introduce, package_sha256, perform, worker_facts
from raypipe.errors import InputError
from raypipe.stages.stage import Needs, Payload, Site
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec

SHARDS = [Shard(0, 0, 4), Shard(1, 4, 8)]


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


def evidence(work, index=0):
    try:
        return work.ledger.storage.read(f"nonce/numbers-{work.ledger.fingerprint}/{index}.rows")
    except FileNotFoundError:
        return None


def test_a_shard_is_committed_with_its_facts_and_without_evidence(work):
    beats = []
    record = perform(work, SHARDS[1], (), beats.append)
    assert record == work.ledger.record(SHARDS[1]) and record.facts == {"rows": 4}
    assert work.ledger.storage.local(record.sha256).read_text() == "4 5 6 7"
    assert beats == [[4, 5], [6, 7]] and evidence(work, 1) is None
    assert work.ledger.pending() == SHARDS[:1]


def test_rows_that_are_left_out_stand_sorted_in_the_record(work):
    record = perform(work, SHARDS[0], (3, 1), lambda rows: None)
    assert record.facts == {"rows": 2, "skipped_rows": [1, 3]}


@pytest.mark.parametrize("mode", [Mode.CAREFUL, Mode.PROBE])
def test_a_careful_worker_writes_its_rows_before_it_computes_them(work, mode):
    work.ledger.storage.replace(f"nonce/numbers-{work.ledger.fingerprint}/0.rows", b"[99]")
    beats, first = [], []
    work.stage.look = lambda: evidence(work)
    inner = work.stage.run

    def run(shard, skip, beat):
        first.append(evidence(work))
        return inner(shard, skip, beat)

    work.stage.run = run
    record = perform(work, SHARDS[0], (), beats.append, mode)
    assert first == [b"[]"], "what an earlier try left is not of this one"
    assert work.stage.seen == [b"[0, 1]", b"[2, 3]"] and beats == [[0, 1], [2, 3]]
    assert (record is None) == (mode is Mode.PROBE)
    scratch = work.stage.site.scratch
    assert mode is Mode.CAREFUL or list(scratch.iterdir()) == []
    assert work.ledger.pending() == (SHARDS if mode is Mode.PROBE else SHARDS[1:])


def test_a_worker_speaks_of_itself_and_the_stage_has_the_last_word(work, tmp_path):
    facts = introduce(work, Site(tmp_path / "scratch", "cuda", 3))
    assert facts == {**worker_facts(), "numerics": "toy", "python": "told by the stage"}
    assert work.stage.site == Site(tmp_path / "scratch", "cuda", 3)
    assert worker_facts() == {
        "python": platform.python_version(),
        "raypipe": raypipe.__version__,
        "package_sha256": package_sha256(),
    }


def test_the_package_has_one_hash_over_names_and_bytes_in_order():
    root = Path(raypipe.__file__).parent
    paths = sorted(root.rglob("*.py"))
    content = b"".join(
        path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
        for path in paths
    )
    assert len(paths) > 100 and package_sha256() == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(("left", "found"), [(None, "no such file"), (b"other", "other")])
def test_a_worker_that_finds_another_word_is_refused(work, left, found):
    task = Task(work.stage, work.ledger, ("nonce/word", "the word"))
    if left is not None:
        work.ledger.storage.replace("nonce/word", left)
    with pytest.raises(InputError, match=f"nonce/word: expected the word .* found '{found}'"):
        introduce(task, work.stage.site)
    work.ledger.storage.replace("nonce/word", b"the word")
    assert introduce(task, work.stage.site)["numerics"] == "toy"


def test_a_stage_that_is_another_than_when_the_driver_began_is_refused(work):
    work.stage.spec = StageSpec("numbers", 1, {"x": 2})
    with pytest.raises(InputError, match=r"expected what stood when the driver began.*x 1 -> 2"):
        introduce(work, work.stage.site)


def test_a_file_that_changes_while_a_shard_is_computed_leaves_the_shard_open(work):
    work.stage.spec = StageSpec("numbers", 1, {"x": 1}, {"content:qrels": "before"})
    ledger = Ledger(work.ledger.storage, "read", work.stage.spec, SHARDS)
    task = Task(work.stage, ledger, ("", ""))
    introduce(task, work.stage.site)
    work.stage.spec = StageSpec("numbers", 1, {"x": 1}, {"content:qrels": "after"})
    with pytest.raises(InputError, match="before this shard was computed, found .*before -> after"):
        perform(task, SHARDS[0], (), lambda rows: None)
    assert ledger.pending() == SHARDS
    assert perform(task, SHARDS[0], (), lambda rows: None, Mode.PROBE) is None


def test_stores_alone_are_asked_for_once_a_worker_not_once_a_shard(work):
    work.stage.spec = StageSpec("numbers", 1, {"x": 1}, {"passages": "before"})
    ledger = Ledger(work.ledger.storage, "read", work.stage.spec, SHARDS)
    work.stage.spec = None  # whoever asks for it fails
    assert perform(Task(work.stage, ledger, ("", "")), SHARDS[0], (), lambda rows: None) is not None


# The plain loop's backend


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
    assert done.record.facts["skipped_rows"] == [2] and 0 <= done.seconds < 60
    assert isinstance(probe, Done) and probe.record is None and probe.shard == SHARDS[1]
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


def test_events_and_tasks_as_they_are_unless_told():
    assert Task(None, None).nonce == ("", "") and Beating(1).rows == ()
    assert Ready(1, {}).process is None
