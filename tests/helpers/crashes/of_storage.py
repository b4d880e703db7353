"""Scenarios of one store and of its lease: plan, commit, publish, log of attempts."""

import pyarrow as pa

from crashes.trial import Scenario
from raypipe.driver.workspace import Workspace
from raypipe.storage.holder import Process, this_process
from raypipe.storage.lease import acquire, lease_state
from raypipe.storage.ledger import Ledger, events
from raypipe.storage.payloads import read_table, write_table
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard, seal
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import committed

SPEC = StageSpec("toy", 1)
SHARDS = [Shard(0, 0, 2), Shard(1, 2, 4)]
ROWS = pa.schema([("row", pa.int64())])
LEASE = f"toy/{SPEC.fingerprint()}/lease.json"


def stores(root):
    return PosixStorage(root / "stores")


def begun(root):
    """A workspace that refers to a store without a plan."""
    work = Workspace(root)
    work.mark()
    work.refer("toy", SPEC.fingerprint())


def ledger_of(root):
    return Ledger(stores(root), "toy", SPEC, SHARDS)


def commit(root, number):
    """Compute and commit a shard, unless it is committed."""
    ledger = ledger_of(root)
    shard = SHARDS[number]
    if shard in ledger.pending():
        path = ledger.storage.scratch() / "rows.parquet"
        rows = pa.table({"row": pa.array(range(shard.start, shard.stop), pa.int64())})
        write_table(path, ROWS, [rows])
        ledger.commit(shard, path, {"rows": 2, "skipped_rows": [3] if number else []})


def planned(root):
    begun(root)
    ledger_of(root)


def computed(root):
    planned(root)
    for number in (0, 1):
        commit(root, number)


def publish(root):
    ledger_of(root).publish(max_failed_rows=1)


def look(root):
    """The committed rows by shard, each read completely, and the manifest."""
    found = committed(stores(root), "toy", SPEC)
    if found is None:
        return {"plan": None, "rows": {}, "manifest": None}
    rows = {
        r.shard.index: read_table(found.path(r), ROWS).to_pylist() for r in found.manifest.records
    }
    manifest = ledger_of(root).manifest()
    return {"plan": SHARDS, "rows": rows, "manifest": manifest and manifest.to_bytes()}


def note(root):
    ledger_of(root).note({"event": "committed", "shard": 1})


def noted(root):
    planned(root)
    ledger_of(root).note({"event": "committed", "shard": 0})


def look_at_log(root):
    """Which shards the log names; a line may be there twice."""
    name = f"toy/{SPEC.fingerprint()}/attempts.jsonl"
    return {"log": sorted({event["shard"] for event in events(stores(root).read(name))})}


def take(root):
    """A lease from its beginning to its end, with processes that work for its holder."""
    lease = acquire(stores(root), LEASE)
    try:
        lease.add_processes([DEAD])
        lease.forget_processes()
    finally:
        lease.release()


DEAD = Process(this_process().host, this_process().boot_id, this_process().pid_namespace, 1, 1.5)
"""A holder that has ended: no process began then."""


def held_by_a_dead_one(root):
    planned(root)
    body = {"holder": DEAD.to_json(), "processes": []}
    stores(root).create(f"{LEASE}.d/0000001.json", seal(body))
    renewal = {"generation": 1, "counter": 5, "holder": DEAD.to_json(), "processes": []}
    stores(root).replace(LEASE, seal({**renewal, "released": False}))


def look_at_lease(root):
    """Whether somebody may hold it."""
    found = lease_state(stores(root), LEASE)
    return {"free": found is None or found.released, "holders": found and found.holder != DEAD}


def while_held(part, seen):
    return True  # held by the one that was disturbed; the repetition says whether that matters


SCENARIOS = [
    Scenario("a plan", begun, ledger_of, look),
    Scenario("a shard: payload and commit", planned, lambda root: commit(root, 0), look),
    Scenario("publishing, with a row in quarantine", computed, publish, look),
    Scenario("a line of the log of attempts", noted, note, look_at_log, own=r".*attempts\.jsonl"),
    Scenario("a lease: taken, renewed, released", planned, take, look_at_lease, while_held),
    Scenario("a lease of a dead holder", held_by_a_dead_one, take, look_at_lease, while_held),
]
