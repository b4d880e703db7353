"""The work inside a worker: it introduces itself, computes and commits."""

import json
import os
import platform
from collections.abc import Mapping

from raypipe.cluster.backend import Committed, Mode, Task
from raypipe.errors import LEAVE_INPUTS, InputError
from raypipe.package import VERSION, package_sha256
from raypipe.stages.stage import Beat, Opened, Rows, Site
from raypipe.storage.records import Json, Shard


def introduce(task: Task, site: Site) -> tuple[Opened, dict[str, Json]]:
    """The opened stage, and facts of this worker: versions, package hash, numerics class.

    Raises:
        InputError: this worker sees another folder of stores than the driver, or other input files
            or packages.
    """
    name, content = task.nonce
    if name:
        _answer(task, name, content)
    _check_spec(task, "when the driver began")
    opened = task.stage.open(site)
    return opened, {**worker_facts(), **opened.facts}


def worker_facts() -> dict[str, Json]:
    """This process's versions of Python and raypipe, and the hash of raypipe's source."""
    return {
        "python": platform.python_version(),
        "raypipe": VERSION,
        "package_sha256": package_sha256(),
    }


def perform(
    task: Task, opened: Opened, shard: Shard, skip: Rows, beat: Beat, mode: Mode = Mode.PLAIN
) -> Committed | None:
    """The committed record of a shard computed here; no data pass through the driver.

    A probe commits nothing and returns None.

    Raises:
        InputError: an input changed while it was read; nothing is committed.
    """
    began = cpu_seconds()
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
    record = task.ledger.commit(shard, payload.path, facts)
    spent = cpu_seconds() - began
    took = (payload.num_copied, payload.num_tokens, spent, payload.computing_seconds)
    return Committed(record, *took)


def cpu_seconds() -> float:
    """CPU time of this process on all its threads, and of its children that have ended."""
    return sum(os.times()[:4])


def _check_spec(task: Task, when: str) -> None:
    """Checks that the spec, computed here and now, is the spec of the store."""
    changes = task.ledger.spec.diff(task.stage.spec)
    if changes:
        raise InputError(
            f"{platform.node()}: {task.ledger.store}: expected the same inputs as {when}, found "
            f"{'; '.join(map(str, changes))}. Every node must see the same input files and "
            f"packages. {LEAVE_INPUTS}"
        )


def _written(task: Task, shard: Shard, beat: Beat) -> Beat:
    """A heartbeat that first records its rows, for the driver to find if this process dies."""
    from raypipe.cluster.failures import evidence_name

    name = evidence_name(task.ledger, shard)
    task.ledger.storage.replace(name, b"[]")  # clears what an earlier, preempted try left

    def beat_and_write(rows: Rows) -> None:
        task.ledger.storage.replace(name, json.dumps([int(row) for row in rows]).encode())
        beat(rows)

    return beat_and_write


def _answer(task: Task, name: str, content: str) -> None:
    uri = task.ledger.storage.uri
    try:
        word = task.ledger.storage.read(name)
        if word != content.encode():  # its reply may have arrived damaged
            word = task.ledger.storage.read(name)
        text = word.decode(errors="replace")
    except FileNotFoundError:
        if task.ledger.manifest() is not None:
            return  # others have computed all before this worker came: the driver took it back
        text = "no such file"
    if text != content:
        raise InputError(
            f"{platform.node()}: {uri}/{name}: expected the driver's nonce, found "
            f"{text!r}. The stores must be one folder that every node mounts at the same path, "
            "or a bucket (recipe key `stores`)."
        )
