"""Completes one stage: reuses what exists, computes what is missing, publishes."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from raypipe.cluster.backend import Task
from raypipe.cluster.loop import run
from raypipe.cluster.report import Report, report_of
from raypipe.cluster.worker import worker_facts
from raypipe.driver.machine.space import check_space
from raypipe.driver.recipe.older import older_stores
from raypipe.driver.recipe.watching import Backends, StageResult, Watcher
from raypipe.driver.referring import begun_store, complete_store
from raypipe.driver.workspace import Workspace
from raypipe.errors import LEAVE_INPUTS, IncompleteError, InputError, RaypipeError, RefusedError
from raypipe.names import StoreName, Thing
from raypipe.stages.stage import Copying, Sizing, Stage
from raypipe.storage.generations import Generation
from raypipe.storage.holder import Process, wait_until_dead
from raypipe.storage.lease import Lease, LeaseState, acquire
from raypipe.storage.ledger import Ledger, events, find_spec, read_manifest
from raypipe.storage.records import Json, Manifest, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

log = logging.getLogger(__name__)
ENDING_SECONDS = 5.0
"""For workers that were killed; they end in moments."""


@dataclass
class Execution:
    """Completes stages one after the other, for one invocation."""

    workspace: Workspace
    backends: Backends
    sizing: Sizing
    watcher: Watcher
    max_failed_rows: int = 0
    numerics_one: bool = False
    reuse: bool = True
    base: Generation | None = None
    """The current generation, from which rows are copied before any other store."""
    reading: Generation | None = None
    """A generation whose collection and indexes are read, whatever the recipe's files hold."""
    may_run: Callable[[StoreName], bool] = lambda store: True
    should_stop: Callable[[], RaypipeError | None] = lambda: None
    on_change: Callable[[str], None] = log.info
    results: dict[StoreName, StageResult] = field(default_factory=dict)

    def fixed(self, name: StoreName) -> Stored | None:
        """See Stores; what belongs to a query set is never fixed.

        Raises:
            IncompleteError: the generation names a store that was deleted.
        """
        store = str(name)
        of_queries = name.query_set is not None or name.thing is Thing.QUERIES
        if self.reading is None or of_queries or store not in self.reading.stores:
            return None
        found = self.reading.stored(self.workspace.stores, store)
        if found is None:
            raise IncompleteError(
                f"generation {self.reading.number} of {self.reading.name}: its store {store} was "
                "deleted; read another generation, or re-index"
            )
        self.workspace.mark()
        self.workspace.refer(store, found.manifest.fingerprint)
        self._finish(name, found.manifest, None)
        return found

    def ensure(self, name: StoreName, stage: Stage) -> Stored:
        """The finished store of a stage: the existing one, or one computed now.

        Raises:
            IncompleteError: it does not exist, and this invocation may not compute it.
            RaypipeError: whatever ended the computation. Bad input is reported before anything of
                this store is written.
        """
        store, spec = str(name), stage.spec  # computed once: it reads whole input files
        self._tell_change(store, spec)
        manifest, report = complete_store(self.workspace, store, spec), None
        if manifest is None and not self.may_run(name):
            raise IncompleteError(
                f"{store}: not stored with these settings, and --only leaves it out; "
                "run without --only, or with --until"
            )
        if manifest is None:
            if self.reuse and spec.reuse_key and isinstance(stage, Copying):
                stage = stage.reusing(
                    older_stores(self.workspace.stores, self.workspace.id, self.base, name, spec)
                )
            manifest, report = self._compute(name, stage, spec)
        self._finish(name, manifest, report)
        return Stored(self.workspace.stores, manifest)

    def find(self, name: StoreName, spec: StageSpec) -> Stored | None:
        """See Stores."""
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

    def _compute(self, name: StoreName, stage: Stage, spec: StageSpec) -> tuple[Manifest, Report]:
        store, stores, fingerprint = str(name), self.workspace.stores, spec.fingerprint()
        planned = self._planned(store, stage, spec)  # bad input is found before anything is written
        self.workspace.mark()
        lease = acquire(
            stores,
            f"{store}/{fingerprint}/lease.json",
            on_watch=self._watch,
            gone=self.workspace.gone,
        )
        nonce = self.workspace.leave_nonce(store, fingerprint)
        try:
            ledger = begun_store(self.workspace, store, spec, planned)
            ledger.storage.sweep()
            check_space(stores, stage, ledger)
            report = self._map(name, stage, ledger, lease, nonce)
            manifest = ledger.publish(self.max_failed_rows, one_numerics=self.numerics_one)
            # Only a store that a single invocation computed has a time.
            seconds = None if report.num_reused else report.working_seconds
            told = {"working_seconds": seconds, "copied": report.num_copied}
            if report.num_searched:
                told |= {"searched": report.num_searched, "second_pass": report.num_repeated}
            ledger.note({"event": "published", **told})
            ledger.storage.sweep()
            return manifest, report
        finally:
            self.workspace.take_nonce_back(nonce)
            lease.release()

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

    def _map(
        self, name: StoreName, stage: Stage, ledger: Ledger, lease: Lease, nonce: tuple[str, str]
    ) -> Report:
        store = str(name)
        seen: dict[str, Json] = worker_facts()
        workers: list[Process] = []

        def on_ready(facts: Mapping[str, Json], process: Process | None) -> None:
            _compare_workers(store, seen, facts)
            if process is not None:
                workers.append(process)
                lease.add_processes([process])

        def stop() -> RaypipeError | None:
            if lease.lost:
                return RefusedError(f"{store}: another invocation has taken over this store")
            return self.should_stop()

        stands = report_of(ledger.shards, ledger.pending())
        pending = stands.num_planned - stands.num_reused
        self.watcher.began(name, stands)
        if not pending:
            return stands
        try:
            return run(
                Task(stage, ledger, nonce),
                self.backends.get(),
                self.backends.limits(stage.needs, pending),
                on_progress=lambda report: self.watcher.advanced(name, report),
                on_ready=on_ready,
                should_stop=stop,
            )
        except BaseException:
            # Workers were ended in the middle of a file; one more may appear until they are gone.
            self.backends.get().end_idle()
            wait_until_dead(workers, ENDING_SECONDS)
            if not lease.lost:
                ledger.storage.sweep()
            raise

    def _watch(self, found: LeaseState) -> None:
        log.info("cannot tell whether %s is alive; waiting for it to renew its lease", found.holder)
        self.backends.warm()

    def _finish(self, name: StoreName, manifest: Manifest, report: Report | None) -> None:
        known = self.results.get(name)
        if report is None and known is not None and known.fingerprint == manifest.fingerprint:
            return  # this invocation has completed it before, or found it
        published = _published(self.workspace, manifest)
        seconds, copied = published.get("working_seconds"), published.get("copied")
        searched, repeated = published.get("searched"), published.get("second_pass")
        made = report or Report(num_reused=len(manifest.records))
        result = StageResult(
            store=manifest.store,
            fingerprint=manifest.fingerprint,
            reused=report is None,
            num_rows=manifest.num_rows,
            num_shards=len(manifest.records),
            num_shards_reused=made.num_reused,
            num_quarantined=len(manifest.skipped_rows),
            coverage=manifest.coverage,
            num_copied=made.num_copied,
            seconds=made.seconds,
            working_seconds=float(seconds) if isinstance(seconds, int | float) else None,
            num_copied_when_made=copied if isinstance(copied, int) else 0,
            num_rows_computed=made.num_rows,
            num_bytes=made.num_bytes,
            num_tokens=made.num_tokens,
            num_searched=searched if isinstance(searched, int) else 0,
            num_repeated=repeated if isinstance(repeated, int) else 0,
            cpu_seconds=made.cpu_seconds,
        )
        self.results[name] = result
        self.watcher.ended(name, result)


_EQUAL_FACTS = ("python", "raypipe", "package_sha256", "torch", "transformers", "tokenizers")


def _compare_workers(store: str, seen: dict[str, Json], facts: Mapping[str, Json]) -> None:
    """Refuse a worker that differs from the first one in anything that could change bytes."""
    for key in _EQUAL_FACTS:
        if key in facts and seen.setdefault(key, facts[key]) != facts[key]:
            raise InputError(
                f"{store}: a worker has {key} {facts[key]}, expected {seen[key]} as here "
                "and on the workers before it; install one version on every node (a pinned image), "
                "and do not change it while a command runs"
            )


def _published(workspace: Workspace, manifest: Manifest) -> Mapping[str, Json]:
    """What the invocation that published the store told of it, from the end of its log.

    The log of a store of many shards is not read whole: in a bucket each line is a request.
    """
    lines = workspace.stores.newest(f"{manifest.store}/{manifest.fingerprint}/attempts.jsonl")
    attempts = (event for line in islice(lines, _LAST_LINES) for event in events(line))
    return next((event for event in attempts if event.get("event") == "published"), {})


_LAST_LINES = 20
"""Publishing is the last event, unless others computed the store at the same time."""
