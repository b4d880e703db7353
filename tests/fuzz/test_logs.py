"""Mutants of leases, logs, summaries and notes are refused in words, skipped or read exactly."""

import json

import pytest
from fuzzing import fuzz, many, read_or_refused
from hypothesis import strategies as st
from mutants_of import BEYOND_JSON, as_json, mutants_of, structures_of

from raypipe.cluster.failures import evidence_name, read_evidence
from raypipe.config.training import Validate
from raypipe.driver.invocation import last_run
from raypipe.driver.summaries import new_summary, write_summary
from raypipe.driver.training.curves import ordered, values_of
from raypipe.driver.upkeep.status import status
from raypipe.driver.workspace import Workspace
from raypipe.leaderboard.boards import BOARDS
from raypipe.leaderboard.submission import check_metadata, read_metadata
from raypipe.storage.lease import acquire, lease_state
from raypipe.storage.ledger import Ledger, events
from raypipe.storage.records import Shard, seal, unseal
from raypipe.storage.root import open_storage
from raypipe.storage.spec import StageSpec
from raypipe.training.checkpoints import Checkpoints, History, Reader


def damaged(body):
    """Its bytes changed, and objects of another structure, as plain JSON."""
    objects = structures_of(body, beyond=BEYOND_JSON).map(lambda each: as_json(each) or b"null")
    return st.one_of(mutants_of(json.dumps(body, indent=1).encode()), objects)


def sealed(body):
    """The sealed bytes changed, and sealed objects of another structure."""

    def with_seal(changed):
        try:
            return seal(changed)
        except (ValueError, RecursionError):
            return b"[" * 100_000

    return st.one_of(mutants_of(seal(body)), structures_of(body).map(with_seal))


@many
def test_a_changed_summary_is_refused_or_its_state_is_told(num_mutants, tmp_path):
    workspace = Workspace(tmp_path)
    path = tmp_path / "summary.json"
    body = {**new_summary("recipe.yaml"), "status": "failed", "exit": 3, "reason": "a shard"}

    def check(data):
        path.write_bytes(data)
        found, refused = read_or_refused(lambda: status(tmp_path))
        run, none = read_or_refused(lambda: last_run(tmp_path))
        assert none is None and (run is None or isinstance(run, str))
        if refused is None:
            standing = json.loads(data)
            assert standing["status"] == "running" or (
                (found.state, found.exit_code, found.reason)
                == (standing["status"], standing["exit"], standing["reason"])
            )
            assert {**workspace.read_summary(), "sha256": standing["sha256"]} == standing
        return refused is None

    def sealed(found):
        if not isinstance(found, dict):
            return as_json(found)
        try:
            write_summary(tmp_path, found)
        except (TypeError, ValueError, RecursionError):  # what JSON cannot hold
            return as_json(found)
        return path.read_bytes()

    known = [b"[" * 100_000, b"[1]", b"5", b"{}", b'{"status": "failed"}']
    mutants = st.one_of(mutants_of(sealed(body)), structures_of(body).map(sealed))
    fuzz(mutants, check, num_mutants, known=known)


@many
@pytest.mark.parametrize("part", ["claim", "renewal"])
def test_a_changed_lease_is_refused_or_read_exactly(part, num_mutants, tmp_path):
    storage = open_storage(str(tmp_path))
    acquire(storage, "lease.json").release()
    name = "lease.json" if part == "renewal" else "lease.json.d/0000001.json"
    body = unseal(name, storage.read(name))
    if part == "claim":
        storage.delete("lease.json")

    def check(data):
        (tmp_path / name).write_bytes(data)
        found, refused = read_or_refused(lambda: lease_state(storage, name.partition(".d/")[0]))
        assert refused is None or part == "claim"
        if refused is None:
            found.life()
            str(found.holder)
        # A damaged renewal does no harm: the claim still names the holder.
        return refused is None and (part == "claim" or found.released)

    lies = [{**body, "holder": {}}, {**body, "processes": [5]}, {"holder": body["holder"]}]
    fuzz(sealed(body), check, num_mutants, known=[b"[" * 100_000, *map(seal, [{}, *lies])])


@many
def test_a_changed_checkpoint_record_or_measurement_is_refused_or_read(num_mutants, tmp_path):
    storage, folder = open_storage(str(tmp_path)), "weights@mine/ab"
    checkpoint = {"step": 10, "sha256": "ab" * 32, "facts": {"workers": ["one"]}}
    measurement = {"step": 10, "mean": 0.5, "values": [0.4, 0.6]}
    for inner in ("steps", "measurements"):
        (tmp_path / folder / inner).mkdir(parents=True)

    def check(both):
        (tmp_path / folder / "steps/0000010.json").write_bytes(both[0])
        (tmp_path / folder / "measurements/0000010.json").write_bytes(both[1])
        found, refused = read_or_refused(Checkpoints(storage, folder).newest)
        assert refused is not None or found.sha256.isascii()
        history = History(storage, folder, Validate(every=5, patience=1), 20)
        history._known[5] = {"step": 5, "mean": 0.1, "values": [0.1]}
        counted, refused = read_or_refused(lambda: (history.counted(20), history.kept(20)))
        assert refused is not None or [each["mean"] for each in counted[0]][0] == 0.1
        return refused is None

    fuzz(st.tuples(sealed(checkpoint), sealed(measurement)), check, num_mutants)


STEP = {"step": 1, "loss": 0.5, "rate": 1e-3, "gradient_norm": 2.0, "tokens": 7, "seconds": 0.1}
NOTE = {"step": 0, "note": "starts"}
MEASURED = {"step": 5, "measure": "nDCG@10", "mean": 0.5, "of": {"a": 0.4, "b": 0.6}}


@many
def test_changed_lines_of_a_log_are_skipped_or_read_exactly(num_mutants, tmp_path):
    whole = b"".join(json.dumps(event).encode() + b"\n" for event in (STEP, NOTE, MEASURED, STEP))

    class Job:
        storage, folder = open_storage(str(tmp_path)), "weights@mine/ab"

    (tmp_path / Job.folder).mkdir(parents=True)

    def check(data):
        (tmp_path / Job.folder / "progress.jsonl").write_bytes(data)
        found, refused = read_or_refused(lambda: events(data))
        assert refused is None
        assert found == [each for line in data.splitlines() if (each := simple(line)) is not None]
        lines, refused = read_or_refused(Reader(Job).new)
        assert refused is None
        for line in ordered(lines):
            values_of(line)
        return len(lines) >= 3

    known = [b'{"loss": 1}\n', b'{"step": [], "loss": 1}\n', b'{"step": 1, "mean": "x"}\n']
    fuzz(mutants_of(whole), check, num_mutants, known=known)


def simple(line):
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@many
def test_a_store_with_rows_in_quarantine_publishes_whatever_its_log_says(num_mutants, tmp_path):
    storage, spec = open_storage(str(tmp_path)), StageSpec("made", 1, {})
    shard = Shard(0, 0, 3)
    ledger = Ledger(storage, "made", spec, [shard])
    (tmp_path / "payload").write_bytes(b"rows")
    ledger.commit(shard, tmp_path / "payload", {"skipped_rows": [1]})
    folder = tmp_path / ledger.folder
    event = {"event": "quarantined", "row": 1, "reason": "not finite"}

    def check(body):
        for name in ("manifest.json", "quarantine.parquet"):
            (folder / name).unlink(missing_ok=True)
        (folder / "attempts.jsonl").write_bytes(as_json(body) or b"")
        found, refused = read_or_refused(lambda: ledger.publish(max_failed_rows=1))
        assert refused is None
        assert found.skipped_rows == (1,)
        return body == event

    known = [
        {**event, "row": []},
        {**event, "reason": "\ud800"},
        {"event": "quarantined", "row": 1},
    ]
    mutants = st.just(event) | structures_of(event, beyond=BEYOND_JSON)
    fuzz(mutants, check, num_mutants, known=known)


@many
def test_changed_evidence_of_a_dead_worker_is_rows_or_nothing(num_mutants, tmp_path):
    storage, shard = open_storage(str(tmp_path)), Shard(0, 0, 3)
    ledger = Ledger(storage, "made", StageSpec("made", 1, {}), [shard])
    path = tmp_path / evidence_name(ledger, shard)

    def check(data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        rows, refused = read_or_refused(lambda: read_evidence(ledger, shard))
        assert refused is None and not path.exists()
        assert not rows or list(rows) == json.loads(data)
        return bool(rows)

    known = [b"", b"[0, 1", b"5", b'["a"]', b"[[1]]"]
    fuzz(damaged([0, 1, 2]), check, num_mutants, known=known)


@many
def test_changed_metadata_of_a_submission_breaks_rules_or_holds(num_mutants, tmp_path):
    path, board = tmp_path / "20261101-a-metadata.json", BOARDS["msmarco-passage"]
    body = {"team": "t", "model_description": "m", "paper": "", "code": "", "type": "reranking"}
    whole = {**body, "embargo_until": "2027/01/31"}

    def check(data):
        path.write_bytes(data)
        found, refused = read_or_refused(lambda: read_metadata(path))
        if refused is None:
            check_metadata(board, "20261120-b", found, [tmp_path])
            assert found == json.loads(data)
        return refused is None

    fuzz(damaged(whole), check, num_mutants, known=[b"[" * 100_000])


@many
def test_any_id_of_a_submission_breaks_a_rule_or_holds(num_mutants):
    metadata = {"team": "t", "embargo_until": "2027/01/31"}

    def check(data):
        name = data.decode(errors="surrogateescape")
        found, *_ = check_metadata(BOARDS["msmarco-passage"], name, metadata, [])
        return found.to_json()["ok"]

    known = [b"99991231-x", b"99990401-y"]
    fuzz(mutants_of(b"20261120-mine", b"99981231-x"), check, num_mutants, known=known)
