"""What happens inside a worker: speak first, then compute and commit."""

import hashlib
import json
import platform
from collections.abc import Mapping
from functools import cache

from raypipe.cluster.backend import Beat, Mode, Opened, Rows, Site, Task
from raypipe.cluster.bad_rows import evidence_name
from raypipe.errors import LEAVE_INPUTS, InputError
from raypipe.package import FOLDER, VERSION
from raypipe.storage.records import Json, Record, Shard


def introduce(task: Task, site: Site) -> tuple[Opened, dict[str, Json]]:
    """The opened stage, and what this worker is: versions, package hash, numerics class.

    Raises:
        InputError: the stores of the driver are not the folder that this worker sees, or what it
            reads beside them (files, packages) is not what the driver saw.
    """
    name, content = task.nonce
    if name:
        _answer(task, name, content)
    _check_spec(task, "when the driver began")
    opened = task.stage.open(site)
    return opened, {**worker_facts(), **opened.facts}


def worker_facts() -> dict[str, Json]:
    """Versions of Python and raypipe and the hash of raypipe's source, in this process."""
    return {
        "python": platform.python_version(),
        "raypipe": VERSION,
        "package_sha256": package_sha256(),
    }


def perform(
    task: Task, opened: Opened, shard: Shard, skip: Rows, beat: Beat, mode: Mode = Mode.PLAIN
) -> Record | None:
    """The committed record of a shard computed here; no data passes through the driver.

    Of a probe nothing is committed, and the answer is None.

    Raises:
        InputError: an input changed while it was read; nothing of it is committed.
    """
    if mode is not Mode.PLAIN:
        beat = _written(task, shard, beat)
    payload = opened.run(shard, skip, beat)
    if mode is Mode.PROBE:
        payload.path.unlink(missing_ok=True)
        return None
    if any(name.startswith("content:") for name in task.ledger.spec.inputs):
        _check_spec(task, "before this shard was computed")
    facts: Mapping[str, Json] = payload.facts
    if skip:
        facts = {**facts, "skipped_rows": sorted(skip)}
    return task.ledger.commit(shard, payload.path, facts)


def _check_spec(task: Task, when: str) -> None:
    """The spec as it is found here and now is the one that names the store."""
    changes = task.ledger.spec.diff(task.stage.spec)
    if changes:
        raise InputError(
            f"{platform.node()}: {task.ledger.store}: expected what stood {when}, found "
            f"{'; '.join(map(str, changes))}. Every node must see the same input files and "
            f"packages. {LEAVE_INPUTS}"
        )


def _written(task: Task, shard: Shard, beat: Beat) -> Beat:
    """A beat that first leaves its rows where the driver finds them if this process dies."""
    name = evidence_name(task.ledger, shard)
    task.ledger.storage.replace(name, b"[]")  # of an earlier try that was preempted nothing stays

    def beat_and_write(rows: Rows) -> None:
        task.ledger.storage.replace(name, json.dumps([int(row) for row in rows]).encode())
        beat(rows)

    return beat_and_write


@cache
def package_sha256() -> str:
    """SHA-256 over raypipe's own source files, names and bytes in order, read once a process."""
    total = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*.py")):
        total.update(str(path.relative_to(FOLDER)).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def _answer(task: Task, name: str, content: str) -> None:
    uri = task.ledger.storage.uri
    try:
        found = task.ledger.storage.read(name).decode()
    except FileNotFoundError:
        found = "no such file"
    if found != content:
        raise InputError(
            f"{platform.node()}: {uri}/{name}: expected the word the driver left there, found "
            f"{found!r}. The stores must be one folder that every node mounts at the same path, "
            "or a bucket (recipe key `stores`)."
        )
