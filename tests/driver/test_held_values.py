"""Space that stages need and names that may go, by hand."""

import os
import time
from types import SimpleNamespace

import pytest

from raypipe.driver.machine.space import estimated_bytes
from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.stages.bm25 import IndexStage
from raypipe.stages.fuse import FuseStage
from raypipe.stages.scoring.candidates import CandidatesStage, Request
from raypipe.stages.scoring.rerank import AggregateStage, PairsStage, RerankStage
from raypipe.stages.scoring.score import ScoreStage
from raypipe.stages.scoring.token_rows import PassageTokensStage
from raypipe.stages.texts.prepare import CountStage
from raypipe.storage.lease import acquire
from raypipe.storage.ledger import Ledger, work_label
from raypipe.storage.records import FORMAT, Manifest, Record, Shard, seal
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored

SHARDS = [Shard(0, 0, 100), Shard(1, 100, 300), Shard(2, 300, 400)]
PENDING = SHARDS[1:]
"""300 of 400 rows."""


def stored(*records):
    return Stored(None, Manifest("x", "f", tuple(records), ()))


COLLECTION = stored(Record(Shard(0, 0, 100), "aa", 1000), Record(Shard(1, 100, 300), "bb", 600))
RUN = stored(
    Record(Shard(0, 0, 4), "aa", 9, {"rows": 50}), Record(Shard(1, 4, 10), "bb", 9, {"rows": 70})
)
"""10 queries with 120 lines."""
ALL, FIRST, SAMPLE = Request(k0=5), Request(k1=7), Request(k1=7, sample=2)


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (IndexStage(COLLECTION), 3 * 1600 * 3 // 4),
        (FuseStage("f", {}, num_queries=400, method="rrf", depth=50), 32 * 50 * 300),
        (CandidatesStage(None, 1, RUN, ALL, ()), 20 * 120),
        # 7 of each of 10 queries, each with the 6 others, or with 2 of them.
        (CandidatesStage(None, 1, RUN, FIRST, ()), 20 * 70 * 6),
        (CandidatesStage(None, 1, RUN, SAMPLE, ()), 20 * 70 * 2),
        (CandidatesStage(None, 1, RUN, Request(k1=7, sample=9), ()), 20 * 70 * 6),
        (CandidatesStage(None, 1, RUN, Request(k1=50), ()), 20 * 120 * 49),
        (PairsStage("p", RUN, None, FIRST, 10), 24 * 70 * 6),
        (PassageTokensStage(COLLECTION, None, None), 1600 + 8 * 300),
        (PassageTokensStage(stored(Record(Shard(0, 0, 1), "aa", 5)), None, None), 1500 + 8 * 300),
        (PassageTokensStage(stored(), None, None), 8 * 300),
        (ScoreStage(None, None, None, None, None, False), 24 * 300),
        (RerankStage("r", RUN, None, ALL, "keep", 10), 32 * 120),
        (AggregateStage("a", RUN, RUN, FIRST, "sum", "keep", 10), 32 * 120),
        (CountStage([], "msmarco-v1"), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bytes_of_further_stages_by_hand(stage, expected):
    assert estimated_bytes(stage, SHARDS, PENDING) == expected


def test_a_plan_without_rows_needs_nothing_and_one_row_all():
    assert estimated_bytes(IndexStage(COLLECTION), [], []) == 0
    assert estimated_bytes(IndexStage(COLLECTION), [Shard(0, 0, 1)], [Shard(0, 0, 1)]) == 4800


# gc


@pytest.fixture
def work(tmp_path):
    return Workspace(tmp_path / "work")


def store(work, name, number, payload=b"rows"):
    """A complete store of one shard; its folder."""
    ledger = Ledger(work.stores, name, StageSpec("toy", 1, {"number": number}), [Shard(0, 0, 2)])
    path = ledger.storage.scratch() / "payload"
    path.write_bytes(payload)
    ledger.commit(Shard(0, 0, 2), path, {"rows": 2})
    ledger.publish()
    return ledger.folder


def age(work, hours):
    when = time.time() - 3600 * hours
    for path in work.stores.root.rglob("*"):
        if path.is_file():
            os.utime(path, (when, when))


def test_what_is_older_than_a_day_may_go_with_what_it_weighs(work):
    folder = store(work, "a", 1)
    age(work, 23.9)
    assert find_garbage(work).names == []
    age(work, 24.1)
    found = find_garbage(work)
    sizes = [(work.stores.root / name).stat().st_size for name in found.names]
    assert found.num_bytes == sum(sizes) > 0 and found.strangers == []
    last = [name for name in found.names if name.startswith(folder)]
    assert last[0] == f"{folder}/manifest.json" and last[-1] == f"{folder}/spec.json"
    assert found.names[-1].startswith("blobs/")
    blob = work.stores.root / found.names[-1]
    os.utime(blob)
    assert found.names[-1] not in find_garbage(work).names  # a young payload stays
    delete(work, found)
    assert find_garbage(work).names == [] and not blob.exists()


def test_refs_generations_and_leases_hold_a_store_with_its_payload(work):
    held = [store(work, "a", n, payload=b"rows %d" % n) for n in range(4)]
    work.refer(*held[0].split("/"))
    kept = dict([held[1].split("/")])
    work.stores.create("generations/g.json", seal({"format": FORMAT, "stores": kept}))
    lease = acquire(work.stores, f"{held[2]}/lease.json")
    age(work, 25)
    found = find_garbage(work)
    assert {name.rsplit("/", 1)[0] for name in found.names if name.startswith("a/")} == {
        held[3],
        f"{held[3]}/shards",
    }
    assert len([name for name in found.names if name.startswith("blobs/")]) == 1
    delete(work, found)
    payloads = [
        path.read_bytes() for path in (work.stores.root / "blobs").rglob("*") if path.is_file()
    ]
    assert sorted(payloads) == [b"rows 0", b"rows 1", b"rows 2"]
    lease.release()


def test_what_a_dead_owner_left_goes_when_it_is_old(work):
    folder = store(work, "a", 1)
    work.refer(*folder.split("/"))
    label, gone = work_label(*folder.split("/")), work_label("a", "other")
    root = work.stores.root
    names = [f"tmp/{label}/x", f"nonce/{label}/word", f"tmp/{gone}/x", f"nonce/{gone}/word"]
    lease = acquire(work.stores, f"{folder}/lease.json")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    assert find_garbage(work).names == []
    age(work, 25)
    assert sorted(find_garbage(work).names) == sorted(names[2:])
    lease.release()
    assert set(find_garbage(work).names) >= set(names)


def test_files_that_are_none_of_raypipes_hold_what_they_name(work):
    folder = store(work, "a", 1)
    root = work.stores.root
    (manifest,) = root.glob("a/*/manifest.json")
    text = manifest.read_bytes()
    for name in ("top.json", "one/two.json", "a/0/deep/manifest.json", f"{folder}/mine.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    age(work, 25)
    found = find_garbage(work)
    assert set(found.strangers) == {
        "top.json", "one/two.json", "a/0/deep/manifest.json", f"{folder}/mine.txt",
    }  # fmt: skip
    assert f"{folder}/manifest.json" in found.names
    (root / "top.json").write_bytes(text)
    age(work, 25)
    assert not [name for name in find_garbage(work).names if name.startswith("blobs/")]
    (root / f"{folder}/spec.json").chmod(0o644)
    (root / f"{folder}/spec.json").write_text("{")  # whose it was cannot be told: all of it stays
    age(work, 25)
    found = find_garbage(work)
    assert found.names == [] and f"{folder}/manifest.json" in found.strangers


def test_gc_is_for_folders():
    with pytest.raises(InputError, match="s3://b: gc needs stores in a folder"):
        find_garbage(SimpleNamespace(stores=SimpleNamespace(uri="s3://b")))
