import hashlib

import numpy as np
import pytest
from course import Course
from safetensors.torch import load_file
from training_texts import ONE, TWO

from raypipe.errors import InputError
from raypipe.storage.ledger import Ledger
from raypipe.text.inputs import TextSlice
from raypipe.training import export
from raypipe.training import export as commit


@pytest.fixture
def course(tmp_path, monkeypatch):
    return lambda **recipe: Course(tmp_path, monkeypatch, **recipe)


def test_the_best_checkpoint_is_committed_and_the_last_where_none_is_measured(course):
    found = course()
    found.go()
    commit.commit(found.job, device="cpu")
    ledger = Ledger(found.job.storage, "train-x", found.spec)
    record = ledger.record(ledger.shards[0])
    assert (record.facts["step"], record.facts["rows"]) == (6, 1)
    assert [each["step"] for each in record.facts["history"]] == [3, 6, 9, 10]
    assert record.facts["numerics"].endswith(", fp32")
    tensors = load_file(found.job.storage.local(record.sha256))
    assert {name: t.item() for name, t in tensors.items()} == {"w": 6.0}


def test_the_last_is_committed_where_nothing_is_measured(course):
    found = course(validate_=None)
    found.go()
    commit.commit(found.job, device="cpu")
    ledger = Ledger(found.job.storage, "train-x", found.spec)
    record = ledger.record(ledger.shards[0])
    assert (record.facts["step"], record.facts["history"]) == (10, [])


def test_nothing_is_committed_while_a_measurement_is_missing(course):
    found = course()
    found.go()
    found.forget(3, 6, 9, 10)
    with pytest.raises(InputError, match="the checkpoints of 4 steps, first 3"):
        commit.commit(found.job, device="cpu")


@pytest.fixture(autouse=True)
def planned(course, monkeypatch):
    """The driver has planned the store of one shard before its workers commit."""
    from raypipe.storage.records import Shard

    inner = commit.Ledger
    monkeypatch.setattr(
        commit, "Ledger", lambda storage, store, spec: inner(storage, store, spec, [Shard(0, 0, 1)])
    )


def test_passages_trained_on_are_known_by_their_pieces(monkeypatch):
    def hashed(*numbers):
        content = np.array(numbers, "<u4").tobytes()
        return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")

    part = TextSlice(np.array([7, 8, 9], np.uint16), np.array([1, 0, 3]), np.array([2, 1, 0]))
    assert export.passage_hashes(part).tolist() == [hashed(8, 9), hashed(7), hashed()]
    expected = sorted(
        [hashed(100, 101), hashed(110), hashed(), hashed(130, 131, 132, 133)]
        + [hashed(1100, 1101), hashed(1130, 1131, 1132, 1133)]
    )
    for at_once in (1, 2, 50_000):
        monkeypatch.setattr(export, "ROWS_AT_ONCE", at_once)
        assert export.trained_on([ONE, TWO]).tolist() == expected
