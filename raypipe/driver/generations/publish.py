"""The last act of a re-indexing: what was built becomes the current generation, or is refused."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from raypipe import schema
from raypipe.data.qrels import read_qrels
from raypipe.driver.generations.changes import changes
from raypipe.driver.generations.drift import Drift, DriftLimit, drift
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import System
from raypipe.driver.recipe.watching import StageResult
from raypipe.driver.report.measure import Measurement
from raypipe.errors import LimitError, RefusedError, StorageError, ending_of
from raypipe.names import Role, StoreName, of_collection, of_queries
from raypipe.stages.run_tables import with_ids
from raypipe.storage.generations import (
    Generation,
    create_generation,
    newest_generation,
    refuse_generation,
)
from raypipe.storage.records import Json
from raypipe.storage.storage import Storage
from raypipe.storage.stored import Stored

log = logging.getLogger(__name__)
_APART = (Role.COUNT, Role.AUDIT)
"""Stores that decide no row: the times of files, and what a precision changes."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What a re-indexing builds on, and what would keep it from becoming current."""

    base: Generation | None
    """The generation that was current when the invocation began."""
    limits: Sequence[DriftLimit] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """A finished pipeline."""

    basis: Basis
    systems: Mapping[str, Sequence[System]]
    results: Mapping[StoreName, StageResult]
    measurement: Measurement
    seconds: float


def publish(stores: Storage, wanted: Publication, built: Built) -> dict[str, Json]:
    """The number of the current generation and what changed, for the summary.

    Nothing is created if every store and measure is the current generation's.

    Raises:
        LimitError: a run drifted beyond a limit; the build is kept as refused.
        RefusedError: another invocation has published a generation since this one began.
    """
    name, base = built.basis.recipe.name, wanted.base
    number = base.number + 1 if base else 1
    found = _generation(stores, name, number, base, built)
    if base is not None and _is_same(base, found):
        log.info("nothing changed: generation %d of %s stays current", base.number, name)
        return {"number": base.number, "published": False}
    problems = _beyond(found, wanted.limits)
    if problems:
        refuse_generation(stores, found)
        raise LimitError(
            f"generation {number} of {name} was built and is not current: {'; '.join(problems)}. "
            "Look at its runs, then take it with `raypipe reindex ... --accept`, or mend the "
            "collection and run again"
        )
    create(stores, found)
    return {"number": number, "published": True, **found.facts}


def create(stores: Storage, generation: Generation) -> None:
    """Create the generation.

    Raises:
        RefusedError: there is one of this number, by another invocation.
        StorageError: it was created, and storage failed before that was certain to last.
    """
    try:
        created = create_generation(stores, generation)
    except OSError as error:
        newest = newest_generation(stores, generation.name)
        if newest != generation:
            raise
        raise StorageError(
            f"generation {generation.number} of {generation.name} is current, but storage failed "
            f"before that was certain to last: {ending_of(error).reason}. Look at `raypipe "
            "history` first: a repeated rollback goes back again"
        ) from error
    if not created:
        newest = newest_generation(stores, generation.name)
        assert newest is not None
        raise RefusedError(
            f"generation {generation.number} of {generation.name}: another invocation published "
            f"it first, and generation {newest.number} is current. What was built here is kept: "
            "run again to build on the current one"
        )


def _generation(
    stores: Storage, name: str, number: int, base: Generation | None, built: Built
) -> Generation:
    kept = {store: result for store, result in built.results.items() if store.role not in _APART}
    facts: dict[str, Json] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "base": base.number if base else None,
        "passages": built.basis.collection().num_rows,
        "rows_copied": sum(result.num_copied for result in kept.values()),
        "seconds": round(built.seconds, 1),
        "measures": built.measurement.means,
    }
    if base is not None:
        facts |= _changes(stores, base, built.basis)
        facts["drift"] = _drifts(stores, base, built)
    return Generation(name, number, {str(s): r.fingerprint for s, r in kept.items()}, facts)


def _is_same(base: Generation, found: Generation) -> bool:
    """Whether nothing changed; other qrels change the measures of runs that stay as they are."""
    return dict(base.stores) == dict(found.stores) and base.facts.get(
        "measures"
    ) == found.facts.get("measures")


def _changes(stores: Storage, base: Generation, basis: Basis) -> dict[str, int]:
    """Numbers of passages added, removed, changed and unchanged; empty if the base is gone."""
    ids, hashes = (str(of_collection(role)) for role in (Role.IDS, Role.HASHES))
    older = base.stored(stores, ids)
    if older is None:
        return {}
    mine = basis.hashes() if hashes in base.stores else None
    return asdict(changes(basis.ids(), mine, older, base.stored(stores, hashes)))


def _drifts(stores: Storage, base: Generation, built: Built) -> dict[str, Json]:
    """By query set and system, for the systems that both generations have."""
    found: dict[str, Json] = {}
    for query_set, systems in built.systems.items():
        queries = built.basis.queries(query_set)
        older = base.stored(stores, str(of_queries(query_set)))
        if older is None or older.identity != queries.identity:
            log.info("%s: its queries changed, so its runs are not compared", query_set)
            continue
        of_set = {s.name: _drift(stores, base, built.basis, query_set, s) for s in systems}
        found[query_set] = {name: d.to_json() for name, d in of_set.items() if d is not None}
    return found


def _drift(
    stores: Storage, base: Generation, basis: Basis, query_set: str, system: System
) -> Drift | None:
    older = base.stored(stores, system.stored.manifest.store)
    role = Role.PASSAGES if system.unit == "passages" else Role.DOCUMENTS
    collection = base.stored(stores, str(of_collection(role)))
    if system.produces != "run" or older is None or collection is None:
        return None
    recipe, queries = basis.recipe, basis.queries(query_set).table(schema.QUERIES)
    sides: tuple[tuple[Stored, Stored], ...] = (
        (older, collection),
        (system.stored, basis.ranked(system.unit)),
    )
    before, now = (with_ids(run.whole_table(schema.RUN), queries, rows) for run, rows in sides)
    qrels = recipe.queries[query_set].qrels_of(system.unit)
    if recipe.evaluate is None or qrels is None:
        return drift(before, now)
    return drift(before, now, read_qrels(Path(qrels)), recipe.evaluate.measures)


def _beyond(generation: Generation, limits: Sequence[DriftLimit]) -> list[str]:
    """Each limit that a system of a query set is beyond."""
    problems = []
    for query_set, systems in generation.facts.get("drift", {}).items():
        for system, body in systems.items():
            measures: dict[str, Any] = body["measures"]
            pairs = {name: (pair[0], pair[1]) for name, pair in measures.items()}
            found = Drift(means=body["means"], measures=pairs)
            lines = (limit.problem(found) for limit in limits)
            problems += [f"{system} on {query_set}: {line}" for line in lines if line]
    return problems
