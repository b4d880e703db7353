"""What publishing refuses, and what a manifest then says."""

import pytest

from raypipe.errors import InputError, LimitError
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec

SHARDS = [Shard(0, 0, 3), Shard(1, 3, 6)]


def computed(storage, *facts):
    """A ledger whose shards were committed with these facts."""
    book = Ledger(storage, "toy", StageSpec("toy", 1), SHARDS)
    for shard, told in zip(SHARDS, facts, strict=True):
        path = book.storage.scratch() / "payload"
        path.write_bytes(str(shard).encode())
        book.commit(shard, path, told)
    return book


@pytest.mark.fault(46, "shards of two classes are refused where one is asked for")
def test_shards_of_two_numerics_classes_are_refused_where_one_is_asked_for(storage):
    book = computed(storage, {"numerics": "cuda H100"}, {"numerics": "cpu avx2"})
    with pytest.raises(InputError, match="2 numerics classes: cpu avx2; cuda H100"):
        book.publish(one_numerics=True)
    assert book.manifest() is None
    assert book.publish().numerics == ("cpu avx2", "cuda H100")


def test_shards_of_one_class_and_of_none_are_taken_where_one_is_asked_for(storage):
    book = computed(storage, {"numerics": "cpu"}, {"rows": 3})
    assert book.publish(one_numerics=True).numerics == ("cpu",)


def test_rows_in_quarantine_are_counted_once_over_all_shards(storage):
    book = computed(storage, {"skipped_rows": [2, 0]}, {"skipped_rows": [5]})
    with pytest.raises(LimitError, match=r"3 rows .* first rows \[0, 2, 5\]"):
        book.publish(max_failed_rows=2)
    assert book.manifest() is None
    manifest = book.publish(max_failed_rows=3)
    assert manifest.skipped_rows == (0, 2, 5) and manifest.coverage == 0.5


def test_a_torn_line_of_the_log_does_not_hinder_publishing(storage):
    book = computed(storage, {}, {"skipped_rows": [4]})
    log = f"{book.folder}/attempts.jsonl"
    storage.append(log, b'{"event": "quarantined", "row": 4, "rea')
    book.note({"event": "quarantined", "row": 4, "reason": "told whole"})
    book.note({"event": "quarantined", "row": 4, "reason": "told again"})
    assert book.publish(max_failed_rows=1).skipped_rows == (4,)
