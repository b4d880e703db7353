"""Free space is checked against the plan before any shard is computed."""

import pytest
from recipes import invoke

from raypipe.driver.execute import Execution, Watcher, check_space
from raypipe.driver.workspace import Workspace
from raypipe.errors import StorageError
from raypipe.stages.fuse import fuse_stage
from raypipe.stages.stage import Sizing
from raypipe.stages.tables import Sides
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Manifest, Record, Shard
from raypipe.storage.store import Stored

QUERIES = Stored(None, Manifest("queries@dev", "f", (Record(Shard(0, 0, 1000), "aa", 9),), ()))
COLLECTION = Stored(None, Manifest("passages@collection", "f", (), ()))
RUN = Stored(None, Manifest("run", "f", (Record(Shard(0, 0, 1000), "aa", 9, {"rows": 10**6}),), ()))
FUSED = fuse_stage("fused", {"run": RUN}, Sides(QUERIES, COLLECTION), method="rrf", depth=1000)
NEEDED = 11 * 1000 * 1000  # 11 bytes a line of a run


class SmallDisk(PosixStorage):
    """A folder on a disk with so many bytes left."""

    free = 0

    def free_bytes(self):
        return self.free


def disk(tmp_path, free):
    storage = SmallDisk(tmp_path / "stores")
    storage.free = free
    return storage


def ledger(storage):
    shards = [Shard(0, 0, 250), Shard(1, 250, 1000)]
    return Ledger(storage, "fused.dev", FUSED.spec, shards)


def test_just_enough_space_is_enough(tmp_path):
    storage = disk(tmp_path, NEEDED)
    check_space(storage, FUSED, ledger(storage))


@pytest.mark.fault(8, "one byte too few is refused, with both numbers and the place")
def test_a_byte_too_few_is_refused_with_both_numbers_and_the_place(tmp_path):
    storage = disk(tmp_path, NEEDED - 1)
    with pytest.raises(StorageError) as refused:
        check_space(storage, FUSED, ledger(storage))
    told = str(refused.value)
    assert "11,000,000 bytes" in told and "10,999,999 bytes" in told
    assert "fused.dev" in told and storage.uri in told


def test_only_missing_shards_count(tmp_path):
    storage = disk(tmp_path, NEEDED * 3 // 4)
    planned = ledger(storage)
    with pytest.raises(StorageError):
        check_space(storage, FUSED, planned)
    payload = tmp_path / "payload"
    payload.write_bytes(b"rows")
    planned.commit(planned.shards[0], payload, {"rows": 250})
    check_space(storage, FUSED, planned)


def test_nothing_is_computed_and_no_backend_starts_where_space_is_short(tmp_path):
    workspace = Workspace(tmp_path / "work")
    workspace.stores = disk(tmp_path, 10)
    execution = Execution(workspace, backends=None, sizing=Sizing(), watcher=Watcher())
    with pytest.raises(StorageError, match="free space there"):
        execution.ensure("fused.dev", FUSED)
    assert not list((tmp_path / "stores").glob("*/*/shards/*"))


def test_stores_may_be_named_by_a_file_uri(tmp_path):
    (tmp_path / "passages.tsv").write_text("0\ta lease\n1\ta zebra\n")
    (tmp_path / "queries.tsv").write_text("q\ta zebra\n")
    (tmp_path / "run.trec").write_text("q Q0 1 1 2.0 x\nq Q0 0 2 1.0 x\n")
    recipe = f"""
format: 1
name: uri
collection: {{format: msmarco-v1, input: {tmp_path}/passages.tsv}}
queries: {{dev: {{file: {tmp_path}/queries.tsv}}}}
stages: {{given: {{do: read, runs: {{dev: {tmp_path}/run.trec}}}}}}
resources: {{backend: inline, device: cpu}}
stores: file://{tmp_path}/elsewhere
"""
    outcome = invoke(recipe, tmp_path / "work")
    assert outcome.summary["exit"] == 0
    assert list((tmp_path / "elsewhere" / "given.dev").glob("*/manifest.json"))
    assert not (tmp_path / "work" / "stores").exists()
