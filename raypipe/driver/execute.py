"""Completes one stage: reuses what exists, computes what is missing, publishes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from raypipe.driver.place import LazyBackends
from raypipe.driver.workspace import Refs, Workspace, begun_store, complete_store, read_refs
from raypipe.errors import (
    LEAVE_INPUTS,
    FullError,
    IncompleteError,
    InputError,
    RaypipeError,
    RefusedError,
)
from raypipe.names import Role, StoreName, Thing
from raypipe.stages.stage import Sizing, Stage
from raypipe.storage.holder import Process, wait_until_dead
from raypipe.storage.lease import Lease, LeaseState, acquire
from raypipe.storage.ledger import Ledger, events, find_spec, read_manifest
from raypipe.storage.records import Json, Manifest, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored

if TYPE_CHECKING:
    from raypipe.cluster.backend import Task
    from raypipe.cluster.report import Report
    from raypipe.storage.generations import Generation

log = logging.getLogger(__name__)
ShouldStop = Callable[[], RaypipeError | None]
"""Returns the error that ends the work, if it is to end."""
Compute = Callable[["WorkersOfStore", ShouldStop], None]
"""Commits the missing shards of a store, under its lease, which names the workers."""
ENDING_SECONDS = 5.0
"""For workers that were killed; they end in moments."""


class Watcher:
    """Is notified of each stage's progress; this one is silent."""

    def expects(self, num_stages: int) -> None:
        """So many stages are foreseen, those that are reused among them."""

    def began(self, name: StoreName, report: Report) -> None:
        """Shards of a stage are being computed."""

    def advanced(self, name: StoreName, report: Report) -> None:
        """A shard was committed."""

    def ended(self, name: StoreName, completed: Completed) -> None:
        """A stage is complete."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A complete store, and the work of this invocation on it."""

    manifest: Manifest
    report: Report | None
    """None if the invocation found the store complete."""

    @property
    def num_rows(self) -> int:
        """The store's rows."""
        return self.manifest.num_rows

    def to_json(self) -> dict[str, Json]:
        """The store's entry in summary.json."""
        manifest, report = self.manifest, self.report
        num_shards = len(manifest.records)
        entry: dict[str, Json] = {
            "seconds": 0.0,
            "rows": manifest.num_rows,
            "copied": 0,
            "computed": {"rows": 0, "tokens": 0, "bytes": 0, "cpu_seconds": 0.0},
            "shards": {
                "planned": num_shards,
                "reused": num_shards if report is None else report.num_reused,
                "quarantined": len(manifest.skipped_rows),
            },
            "coverage": manifest.coverage,
            "reused": report is None,
            "fingerprint": manifest.fingerprint,
        }
        if report is not None:
            entry |= {"seconds": round(report.seconds, 2), "copied": report.num_copied}
            entry["computed"] = {
                "rows": report.num_rows - report.num_copied,
                "tokens": report.num_tokens,
                "bytes": report.num_bytes,
                "cpu_seconds": round(report.cpu_seconds, 2),
            }
        return entry


@dataclass
class Execution:
    """Completes stages one after the other, for one invocation."""

    workspace: Workspace
    backends: LazyBackends
    sizing: Sizing
    watcher: Watcher
    max_failed_rows: int = 0
    numerics_one: bool = False
    reuse: bool = True
    base: Generation | None = None
    """The current generation, from which rows are copied before any other store."""
    reading: Generation | None = None
    """A generation whose collection and indexes are read, whatever the recipe's files hold."""
    should_stop: ShouldStop = lambda: None
    on_change: Callable[[str], None] = log.info
    results: dict[StoreName, Completed] = field(default_factory=dict)

    def fixed(self, name: StoreName) -> Stored | None:
        """The generation's store that is read instead; none of a query set. See Stores.

        Raises:
            IncompleteError: the generation names a store that was deleted.
        """
        store = str(name)
        of_queries = name.query_set is not None or name.thing is Thing.QUERIES
        if self.reading is None or of_queries or store not in self.reading.stores:
            return None
        stored = self.reading.stored(self.workspace.stores, store)
        if stored is None:
            raise IncompleteError(
                f"generation {self.reading.number} of {self.reading.name}: its store {store} was "
                "deleted; read another generation, or re-index"
            )
        self.workspace.mark()
        self.workspace.refer(store, stored.manifest.fingerprint)
        self._finish(name, stored.manifest, None)
        return stored

    def part(self, folder: Path) -> Execution:
        """The same over a workspace inside this one's."""
        return replace(self, workspace=self.workspace.part(folder), results={})

    def ensure(self, name: StoreName, stage: Stage, compute: Compute | None = None) -> Stored:
        """The finished store of a stage: the existing one, or one computed now.

        Args:
            name: the store's.
            stage: makes the plan, and the shards in a loop over workers.
            compute: makes the missing shards instead, and is called even if only the publication is
                missing; a training's workers make one together.

        Raises:
            RaypipeError: whatever ended the computation. Bad input is reported before anything of
                this store is written.
        """
        store, spec = str(name), stage.spec  # computed once: it reads whole input files
        self._tell_change(store, spec)
        manifest, report = complete_store(self.workspace, store, spec), None
        if manifest is None:
            from raypipe.cluster.report import report_of

            if self.reuse and spec.reuse_key:
                stage = stage.reusing(
                    older_stores(self.workspace.stores, self.workspace.id, self.base, name, spec)
                )
            with self._begun(store, stage, spec) as (task, workers):
                report = report_of(task.ledger.shards, task.ledger.pending())
                pending = report.num_planned - report.num_reused
                self.watcher.began(name, report)

                def stop() -> RaypipeError | None:
                    return workers.overtaken() or self.should_stop()

                if compute is not None:
                    compute(workers, stop)
                elif pending:
                    from raypipe.cluster.loop import Loop

                    loop = Loop(
                        task,
                        self.backends.get(),
                        self.backends.limits(stage.needs, pending),
                        on_progress=lambda so_far: self.watcher.advanced(name, so_far),
                        on_ready=workers.ready,
                        should_stop=stop,
                    )
                    try:
                        report = loop.run()
                    except BaseException:
                        self._end(workers, task.ledger)
                        raise
                manifest = self._publish(task.ledger, report)
        self._finish(name, manifest, report)
        return Stored(self.workspace.stores, manifest)

    def find(self, name: StoreName, spec: StageSpec) -> Stored | None:
        """The complete store of this specification, or None."""
        manifest = read_manifest(self.workspace.stores, str(name), spec.fingerprint())
        return None if manifest is None else Stored(self.workspace.stores, manifest)

    def _tell_change(self, store: str, spec: StageSpec) -> None:
        before = self.workspace.refs().get(store)
        if before is None or before == spec.fingerprint():
            return
        old = find_spec(self.workspace.stores, store, before)
        if old is None:
            self.on_change(f"{store}: the store of the last invocation was deleted")
            return
        self.on_change(f"{store}: {'; '.join(map(str, old.diff(spec)))}")

    @contextmanager
    def _begun(
        self, store: str, stage: Stage, spec: StageSpec
    ) -> Iterator[tuple[Task, WorkersOfStore]]:
        """The store's work, under its lease, with the word that every worker must find."""
        from raypipe.cluster.backend import Task

        stores, fingerprint = self.workspace.stores, spec.fingerprint()
        planned = self._planned(store, stage, spec)  # bad input is found before anything is written
        self.workspace.mark()
        with ExitStack() as end:  # from the first moment: this process may live on
            lease = acquire(
                stores,
                f"{store}/{fingerprint}/lease.json",
                on_watch=self._watch,
                gone=self.workspace.gone,
            )
            end.callback(lease.release)
            nonce = self.workspace.leave_nonce(store, fingerprint)
            end.callback(self.workspace.take_nonce_back, nonce)
            ledger = begun_store(self.workspace, store, spec, planned)
            ledger.storage.sweep()
            check_space(stores, stage, ledger)
            yield Task(stage, ledger, nonce), WorkersOfStore(store, lease)

    def _end(self, workers: WorkersOfStore, ledger: Ledger) -> None:
        """Wait for workers that were ended in the middle of a file, and remove what they left.

        One more may appear until they are gone.
        """
        self.backends.get().end_idle()
        wait_until_dead(workers.processes, ENDING_SECONDS)
        if not workers.overtaken():
            ledger.storage.sweep()

    def _publish(self, ledger: Ledger, report: Report) -> Manifest:
        """The manifest, with a note of the time that a single invocation took, and of the copies.

        Only a store that a single invocation computed has a time, and weights have none.
        """
        manifest = ledger.publish(self.max_failed_rows, one_numerics=self.numerics_one)
        seconds = None if report.num_reused else report.working_seconds or None
        copied = rows_copied(ledger) if report.num_reused else report.num_copied
        ledger.note({"event": "published", "working_seconds": seconds, "copied": copied})
        ledger.storage.sweep()
        return manifest

    def _planned(self, store: str, stage: Stage, spec: StageSpec) -> Sequence[Shard]:
        """The existing plan, or else a new one, not yet written.

        Raises:
            InputError: an input changed between spec and plan, so that the plan would name rows
                that the spec's store does not have.
        """
        try:
            return Ledger(self.workspace.stores, store, spec).shards
        except IncompleteError:
            shards = stage.shards(self.sizing)
        changes = spec.diff(stage.spec)
        if changes:
            raise InputError(
                f"{store}: an input changed while its rows were planned: "
                f"{'; '.join(map(str, changes))}. {LEAVE_INPUTS}"
            )
        return shards

    def _watch(self, found: LeaseState) -> None:
        log.info("cannot tell whether %s is alive; waiting for it to renew its lease", found.holder)
        self.backends.warm()

    def _finish(self, name: StoreName, manifest: Manifest, report: Report | None) -> None:
        before = self.results.get(name)
        if report is None and before is not None:
            if before.manifest.fingerprint == manifest.fingerprint:
                return  # this invocation has completed it before, or found it
        completed = self.results[name] = Completed(manifest, report)
        self.watcher.ended(name, completed)


_EQUAL_FACTS = ("python", "raypipe", "package_sha256", "torch", "transformers", "tokenizers")


class WorkersOfStore:
    """The workers of one store: alike in all that could change bytes, and named in its lease."""

    def __init__(self, store: str, lease: Lease) -> None:
        """None yet; the first ones must be as this process is."""
        from raypipe.cluster.worker import worker_facts

        self._store, self._lease = store, lease
        self._facts: dict[str, Json] = worker_facts()
        self.processes: list[Process] = []

    def overtaken(self) -> RaypipeError | None:
        """The error if another invocation has the lease by now."""
        if self._lease.lost:
            return RefusedError(f"{self._store}: another invocation has taken over this store")
        return None

    def ready(self, facts: Mapping[str, Json], process: Process | None) -> None:
        """Take one more.

        Raises:
            InputError: it differs from those before it.
        """
        for key in _EQUAL_FACTS:
            if key in facts and self._facts.setdefault(key, facts[key]) != facts[key]:
                raise InputError(
                    f"{self._store}: a worker has {key} {facts[key]}, expected {self._facts[key]} "
                    "as here and on the workers before it; install one version on every node (a "
                    "pinned image), and do not change it while a command runs"
                )
        if process is not None:
            self.add([process])

    def add(self, processes: Sequence[Process]) -> None:
        """Name the processes of workers in the lease."""
        self.processes += processes
        self._lease.add_processes(processes)


@dataclass(frozen=True, slots=True)
class StoreCost:
    """The cost of making a store, whichever invocation made it."""

    seconds: float | None = None
    """Computing time without loading; None if several invocations computed it, or it is unknown."""
    num_copied: int = 0
    """Rows whose values the invocation that completed the store took from older stores."""


def read_cost(stores: Storage, store: str, fingerprint: str) -> StoreCost:
    """The cost that the end of the store's log tells; unknown without the log.

    The log of a store of many shards is not read whole: in a bucket each line is a request.
    """
    lines = stores.newest(f"{store}/{fingerprint}/attempts.jsonl")
    attempts = (event for line in islice(lines, _LAST_LINES) for event in events(line))
    published = next((event for event in attempts if event.get("event") == "published"), {})
    seconds, copied = published.get("working_seconds"), published.get("copied")
    return StoreCost(
        float(seconds) if isinstance(seconds, int | float) else None,
        copied if isinstance(copied, int) else 0,
    )


def rows_copied(ledger: Ledger) -> int:
    """Rows of a store that were copied from older ones, by whichever invocation, as its log says.

    A shard that was committed and never told, since its driver was killed between the two, counts
    as computed. The log is read whole, which in a bucket is a request for each line.
    """
    copied: dict[Json, int] = {}
    for line in ledger.storage.newest(f"{ledger.folder}/attempts.jsonl"):
        for event in events(line):
            if event.get("event") == "done" and isinstance(event.get("copied"), int):
                copied.setdefault(event.get("shard"), event["copied"])
    return sum(copied.values())


_LAST_LINES = 20
"""Publishing is the last event, unless others computed the store at the same time."""


def older_stores(
    stores: Storage, own: str | None, base: Generation | None, name: StoreName, spec: StageSpec
) -> list[Stored]:
    """Complete stores of this name and of the same settings, the most likely source first.

    Those of the current generation come before what this workspace used last, and that before what
    it used until then. Scores are copied from those of every stage of the query set, and of every
    workspace of the same root, own ones first.

    Args:
        stores: the root.
        own: the id of the workspace, if there is one.
        base: the current generation.
        name: of the store to fill.
        spec: what it will hold.
    """
    older, current = [], dict(base.stores) if base is not None else {}
    refs = Refs() if own is None else read_refs(stores, own)
    places = [(str(name), current[str(name)])] if str(name) in current else []
    places += [(str(name), each) for each in refs.older(str(name), "")]
    if name.role is Role.SCORES:
        places += [place for each in (current, refs.stores, refs.sources) for place in each.items()]
        for others in _other_refs(stores, own):
            places += [*others.stores.items(), *others.sources.items()]
        scores = re.compile(rf"scores@[^.]+\.{name.query_set}")
        places = [place for place in places if scores.fullmatch(place[0])]
    itself = str(name), spec.fingerprint()
    for store, fingerprint in dict.fromkeys(place for place in places if place != itself):
        manifest = read_manifest(stores, store, fingerprint)
        settings = find_spec(stores, store, fingerprint)
        if manifest is not None and settings is not None and settings.reuse_key == spec.reuse_key:
            older.append(Stored(stores, manifest))
    return older


def _other_refs(stores: Storage, own: str | None) -> Iterator[Refs]:
    """References of the other workspaces of the same stores; a damaged file is left to verify."""
    for file in sorted(stores.names("refs/")):
        other = file.removeprefix("refs/").removesuffix(".json")
        if other != own:
            with suppress(RaypipeError):  # damaged, or of another format
                yield read_refs(stores, other)


def check_space(storage: Storage, stage: Stage, ledger: Ledger) -> None:
    """Returns nothing if the pending shards fit the free space of the stores.

    Raises:
        FullError: they do not fit; the message gives the needed and the free bytes.
    """
    free = storage.free_bytes()
    if free is None:
        return
    needed = estimated_bytes(stage, ledger.shards, ledger.pending())
    if needed > free:
        raise FullError(
            f"{ledger.store}: {storage.uri}: expected {size_of(needed)} free for the "
            f"missing shards, found {size_of(free)}; free space there, or name another place with "
            "the recipe key `stores`. Committed work is kept"
        )


def estimated_bytes(stage: Stage, planned: Sequence[Shard], pending: Sequence[Shard]) -> int:
    """The estimated size in bytes of a stage's pending shards; 0 if they are small."""
    num_rows, num_planned = (sum(shard.num_rows for shard in s) for s in (pending, planned))
    return stage.estimated_bytes(num_rows, num_planned) if pending else 0


def size_of(num_bytes: float) -> str:
    """`1.5 GB (1,500,000,000 bytes)`."""
    return f"{rounded(num_bytes)} ({num_bytes:,.0f} bytes)"


def rounded(num_bytes: float) -> str:
    """`1.5 GB`, or in the largest unit of which there is one."""
    unit, word = next((each for each in _UNITS if num_bytes >= each[0]), _UNITS[-1])
    return f"{num_bytes / unit:.1f} {word}"


_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
