"""What a worker does with a shard, in this process: words, probes, evidence, what is committed."""

import hashlib
import platform
from dataclasses import replace
from pathlib import Path

import pytest
from numbers_stage import SHARDS

import raypipe
from raypipe.cluster.backend import Mode, Task
from raypipe.cluster.worker import introduce, perform, worker_facts
from raypipe.errors import InputError
from raypipe.package import package_sha256
from raypipe.stages.stage import Opened, Site
from raypipe.storage.ledger import Ledger
from raypipe.storage.spec import StageSpec


def evidence(work, index=0):
    try:
        return work.ledger.storage.read(f"nonce/numbers-{work.ledger.fingerprint}/{index}.rows")
    except FileNotFoundError:
        return None


def test_a_shard_is_committed_with_its_facts_and_without_evidence(work, opened):
    beats = []
    record = perform(work, opened, SHARDS[1], (), beats.append).record
    assert record == work.ledger.record(SHARDS[1]) and record.facts == {"rows": 4}
    assert work.ledger.storage.local(record.sha256).read_text() == "4 5 6 7"
    assert beats == [[4, 5], [6, 7]] and evidence(work, 1) is None
    assert work.ledger.pending() == SHARDS[:1]


def test_rows_that_are_left_out_stand_sorted_in_the_record(work, opened):
    done = perform(work, opened, SHARDS[0], (3, 1), lambda rows: None)
    assert done.record.facts == {"rows": 2, "skipped_rows": [1, 3]} and done.num_copied == 0


def test_what_only_the_log_may_know_is_told_and_stands_in_no_record(work, opened):
    """How many rows were copied, and how long a GPU computed."""

    def run(*given):
        return replace(opened.run(*given), num_copied=3, computing_seconds=1.5)

    done = perform(work, Opened(run), SHARDS[0], (), lambda rows: None)
    assert (done.num_copied, done.computing_seconds) == (3, 1.5)
    assert done.record.facts == {"rows": 4}
    assert work.ledger.record(SHARDS[0]) == done.record


@pytest.mark.parametrize("mode", [Mode.CAREFUL, Mode.PROBE])
def test_a_careful_worker_writes_its_rows_before_it_computes_them(work, opened, mode):
    work.ledger.storage.replace(f"nonce/numbers-{work.ledger.fingerprint}/0.rows", b"[99]")
    beats, first = [], []
    work.stage.look = lambda: evidence(work)

    def run(shard, skip, beat):
        first.append(evidence(work))
        return opened.run(shard, skip, beat)

    record = perform(work, Opened(run), SHARDS[0], (), beats.append, mode)
    assert first == [b"[]"], "what an earlier try left is not of this one"
    assert work.stage.seen == [b"[0, 1]", b"[2, 3]"] and beats == [[0, 1], [2, 3]]
    assert (record is None) == (mode is Mode.PROBE)
    scratch = work.stage.site.scratch
    assert mode is Mode.CAREFUL or list(scratch.iterdir()) == []
    assert work.ledger.pending() == (SHARDS if mode is Mode.PROBE else SHARDS[1:])


def test_a_worker_speaks_of_itself_and_the_stage_has_the_last_word(work, tmp_path):
    opened, facts = introduce(work, Site(tmp_path / "scratch", "cuda", 3))
    assert opened == Opened(work.stage.write, {k: facts[k] for k in ("numerics", "python")})
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
def test_a_worker_that_finds_another_word_is_refused(work, opened, left, found):
    task = Task(work.stage, work.ledger, ("nonce/word", "the word"))
    if left is not None:
        work.ledger.storage.replace("nonce/word", left)
    with pytest.raises(InputError, match=f"nonce/word: expected the .* nonce, found '{found}'"):
        introduce(task, work.stage.site)
    work.ledger.storage.replace("nonce/word", b"the word")
    assert introduce(task, work.stage.site)[1]["numerics"] == "toy"


@pytest.mark.fault(
    20, "a worker that finds other inputs than the driver is refused with the difference"
)
def test_a_stage_that_is_another_than_when_the_driver_began_is_refused(work, opened):
    work.stage.spec = StageSpec("numbers", 1, {"x": 2})
    with pytest.raises(InputError, match=r"expected the same inputs as when .*x 1 -> 2"):
        introduce(work, work.stage.site)


def test_a_file_that_changes_while_a_shard_is_computed_leaves_the_shard_open(work, opened):
    work.stage.spec = StageSpec("numbers", 1, {"x": 1}, {"content:qrels": "before"})
    ledger = Ledger(work.ledger.storage, "read", work.stage.spec, SHARDS)
    task = Task(work.stage, ledger, ("", ""))
    opened, _ = introduce(task, work.stage.site)
    work.stage.spec = StageSpec("numbers", 1, {"x": 1}, {"content:qrels": "after"})
    with pytest.raises(InputError, match="before this shard was computed, found .*before -> after"):
        perform(task, opened, SHARDS[0], (), lambda rows: None)
    assert ledger.pending() == SHARDS
    assert perform(task, opened, SHARDS[0], (), lambda rows: None, Mode.PROBE) is None


def test_stores_alone_are_asked_for_once_a_worker_not_once_a_shard(work, opened):
    work.stage.spec = StageSpec("numbers", 1, {"x": 1}, {"passages": "before"})
    ledger = Ledger(work.ledger.storage, "read", work.stage.spec, SHARDS)
    work.stage.spec = None  # whoever asks for it fails
    task = Task(work.stage, ledger, ("", ""))
    assert perform(task, opened, SHARDS[0], (), lambda rows: None) is not None


def test_a_worker_that_comes_after_the_others_have_computed_all_is_no_stranger(work, opened):
    for shard in SHARDS:
        perform(work, opened, shard, (), lambda rows: None)
    task = Task(work.stage, work.ledger, ("nonce/word", "the word"))
    with pytest.raises(InputError, match="no such file"):
        introduce(task, work.stage.site)
    work.ledger.publish()
    assert introduce(task, work.stage.site)[1]["numerics"] == "toy"
