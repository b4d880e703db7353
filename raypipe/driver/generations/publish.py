"""The last act of a re-indexing: what was built becomes the current generation, or is refused."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raypipe.data.qrels import read_qrels
from raypipe.driver.execute import Completed, read_cost
from raypipe.driver.generations.drift import Drift, DriftLimit, counterpart, drift, of_queries
from raypipe.driver.measure import Measurement
from raypipe.driver.recipe.graph import Graph, System
from raypipe.driver.workspace import LEASE, Workspace
from raypipe.errors import (
    IncompleteError,
    LimitError,
    RaypipeError,
    RefusedError,
    StorageError,
    ending_of,
)
from raypipe.names import Role, StoreName, of_collection
from raypipe.stages.ids import TextHashes
from raypipe.stages.reuse.pairing import rows_by_id
from raypipe.storage.cleanup import wait_for_gc
from raypipe.storage.generations import (
    Generation,
    claimed,
    create_generation,
    generation_names,
    generation_numbers,
    newest_generation,
    read_generation,
    refused_since,
)
from raypipe.storage.holder import this_process
from raypipe.storage.lease import lease_state
from raypipe.storage.records import Json
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored

log = logging.getLogger(__name__)
_APART = (Role.COUNT,)
"""Stores that decide no row: the times of files."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The base of a re-indexing, its number, and limits that can keep it from becoming current."""

    number: int
    """The next one when the invocation began: it is published under this number or not at all."""
    base: Generation | None
    """The generation that was current when the invocation began."""
    limits: Sequence[DriftLimit] = ()


@dataclass(frozen=True, slots=True)
class Built:
    """A finished pipeline."""

    graph: Graph
    systems: Mapping[str, Sequence[System]]
    results: Mapping[StoreName, Completed]
    measurement: Measurement
    seconds: float
    snapshot: str | None = None
    """Its name, if the collection is one of a folder of snapshots."""


def publish(workspace: Workspace, publication: Publication, built: Built) -> dict[str, Json]:
    """The number of the current generation and what changed, for the summary.

    Nothing is created if every store and measure is the current generation's, and no second
    refused one if they are those of one that was refused since.

    Raises:
        LimitError: a run drifted beyond a limit, or a limit could not be tried; the build is kept
            as refused.
        RefusedError: another invocation has taken the number since this one began, or has taken
            over its workspace.
    """
    stores, name, base = workspace.stores, built.graph.recipe.name, publication.base
    generation = _generation(workspace, name, publication.number, base, built)
    if base is not None and _is_same(base, generation):
        log.info("nothing changed: generation %d of %s stays current", base.number, name)
        return {"number": base.number, "published": False}
    problems = (
        _beyond(generation, base, publication.limits)
        if base
        else _untried(workspace, name, publication.limits)
    )
    if problems:
        refused = replace(generation, refused="; ".join(problems))
        before = [each for each in refused_since(stores, name, base) if _is_same(each, refused)]
        if before:
            refused = replace(refused, number=before[-1].number)
        else:
            create(workspace, refused)
        again = ", as it was before," if before else ""
        raise LimitError(
            f"generation {refused.number} of {name} was built{again} and is not current: "
            f"{refused.refused}. Look at its runs, then take it with `raypipe reindex ... --accept "
            f"{refused.number}`, or mend the collection and run again"
        )
    create(workspace, generation)
    return {"number": generation.number, "published": True, **generation.facts}


def create(workspace: Workspace, generation: Generation) -> None:
    """Create the generation, unless another invocation has taken over the workspace.

    Raises:
        IncompleteError: stores that it names were deleted.
        RefusedError: another invocation has taken over, or its number was used.
        StorageError: see `create_whole`.
    """
    refuse_overtaken(workspace)
    try:
        create_whole(workspace.stores, generation)
    except IncompleteError:
        refuse_overtaken(workspace)  # it was the successor that deleted them
        raise


def create_whole(stores: Storage, generation: Generation) -> None:
    """Create the generation, whose stores gc keeps from before they are looked for.

    Raises:
        IncompleteError: stores that it names were deleted.
        RefusedError: its number was used by another invocation, or gc does not end.
        StorageError: it was created, and storage failed before that was certain to last.
    """
    with claimed(stores, generation):
        for store, fingerprint in generation.stores.items():
            wait_for_gc(stores, f"{store}/{fingerprint}")
        gone = [store for store in generation.stores if generation.stored(stores, store) is None]
        if gone:
            raise IncompleteError(
                f"generation {generation.number} of {generation.name}: {len(gone)} of its stores "
                f"were deleted, first {gone[0]}"
            )
        _create_record(stores, generation)


def _create_record(stores: Storage, generation: Generation) -> None:
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
        current = "none" if newest is None else f"generation {newest.number}"
        raise RefusedError(
            f"generation {generation.number} of {generation.name}: another invocation used this "
            f"number first, and {current} is current. What was built here is kept: run again to "
            "build on the current one"
        )


def refuse_overtaken(workspace: Workspace) -> None:
    """Returns nothing while no other process has the workspace's lease.

    Whoever was paused and succeeded ends here. If it is paused once more behind this, its number
    and its claim still keep what it creates whole.

    Raises:
        RefusedError: another invocation has taken over, or had.
    """
    lease = lease_state(workspace.own, LEASE)
    if lease is not None and lease.holder != this_process():
        raise RefusedError(
            f"{workspace.folder}: another invocation has taken over this workspace, so nothing is "
            "published here. Look at `raypipe history`, then run again"
        )


def _generation(
    workspace: Workspace, name: str, number: int, base: Generation | None, built: Built
) -> Generation:
    fingerprints = {
        str(store): completed.manifest.fingerprint
        for store, completed in built.results.items()
        if store.role not in _APART
    }
    facts: dict[str, Json] = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "base": base.number if base else None,
        "workspace": workspace.id,
        "passages": built.graph.collection().num_rows,
        "rows_copied": _rows_copied(workspace.stores, base, fingerprints),
        "seconds": round(built.seconds, 1),
        "measures": built.measurement.entries["measures"],
    }
    if built.snapshot is not None:
        facts["snapshot"] = built.snapshot
    if base is not None:
        facts |= _changes(workspace.stores, base, built.graph)
        facts |= _drifts(workspace.stores, base, built)
    return Generation(name, number, fingerprints, facts)


def _rows_copied(stores: Storage, base: Generation | None, fingerprints: Mapping[str, str]) -> int:
    """Rows of the stores that the base has not, which were copied when these were made.

    It does not matter which invocation made them: a killed one may have, or one before it.
    """
    new = fingerprints.items() - ({} if base is None else base.stores).items()
    return sum(read_cost(stores, *store).num_copied for store in new)


def _is_same(base: Generation, newer: Generation) -> bool:
    """Whether nothing changed; other qrels change the measures of runs that stay as they are."""
    return dict(base.stores) == dict(newer.stores) and base.facts.get(
        "measures"
    ) == newer.facts.get("measures")


def _changes(stores: Storage, base: Generation, graph: Graph) -> dict[str, int]:
    """Numbers of passages added, removed, changed and unchanged; empty if the base is gone."""
    older = base.stored(stores, str(of_collection(Role.IDS)))
    return {} if older is None else asdict(changes(graph.ids(), older))


def _drifts(stores: Storage, base: Generation, built: Built) -> dict[str, dict[str, Json]]:
    """The `drift` of each query set and run, or in `not_compared` why it could not be compared."""
    drifts: dict[str, dict[str, Json]] = {"drift": {}, "not_compared": {}}
    for query_set, systems in built.systems.items():
        of_set: dict[str, Json] = {}
        lacking: dict[str, Json] = {}
        for system in (system for system in systems if system.produces == "run"):
            try:
                of_set[system.name] = _drift(stores, base, built.graph, query_set, system).to_json()
            except LookupError as error:
                lacking[system.name] = f"compared with generation {base.number}: {error}"
                log.info("%s on %s is not %s", system.name, query_set, lacking[system.name])
        drifts["drift"][query_set] = of_set
        if lacking:
            drifts["not_compared"][query_set] = lacking
    return drifts if drifts["not_compared"] else {"drift": drifts["drift"]}


def _drift(
    stores: Storage, base: Generation, graph: Graph, query_set: str, system: System
) -> Drift:
    """The drift over the queries that both generations have.

    Raises:
        LookupError: the base has nothing to compare with.
    """
    queries = graph.queries(query_set)
    older = counterpart(stores, base, system.stored, queries)
    before, ids = older.lines, older.queries
    now = of_queries(system.stored, queries, graph.ranked(system.unit), ids)
    if len(ids) < queries.num_rows:
        log.info(
            "%s on %s is compared with generation %d over %d of its %d queries, the ones that both "
            "have with the same id and text",
            *(system.name, query_set, base.number, len(ids), queries.num_rows),
        )
    recipe = graph.recipe
    qrels = recipe.queries[query_set].qrels_of(system.unit)
    if recipe.evaluate is None or qrels is None:
        return drift(before, now, num_queries=len(ids))
    judged = read_qrels(Path(qrels))
    judged = judged.filter(pc.is_in(judged["query_id"], pa.array(sorted(ids), pa.string())))
    return drift(before, now, judged, recipe.evaluate.measures, num_queries=len(ids))


def _untried(workspace: Workspace, name: str, limits: Sequence[DriftLimit]) -> list[str]:
    """The limits of the first generation of a name, where this workspace has published others."""
    stores = workspace.stores

    def is_own(name: str, number: int) -> bool:
        try:
            generation = read_generation(stores, name, number)
        except RaypipeError:  # retired since, or damaged, which is left to verify
            return False
        return bool(generation.facts["workspace"] == workspace.id)

    others = [
        other
        for other in (generation_names(stores) if limits else ())
        if any(is_own(other, number) for number in generation_numbers(stores, other))
    ]
    if not others:
        return []
    return [
        f"{', '.join(map(str, limits))} could not be tried: it would be the first generation of "
        f"{name}, and those that this workspace published are of {', '.join(others)}"
    ]


def _beyond(generation: Generation, base: Generation, limits: Sequence[DriftLimit]) -> list[str]:
    """Each limit that a system of a query set is beyond, or that could not be tried."""
    problems, tried = [], set()
    for query_set, systems in generation.facts["drift"].items():
        for system, body in systems.items():
            measures: dict[str, Any] = body["measures"]
            pairs = {name: (pair[0], pair[1]) for name, pair in measures.items()}
            run_drift = Drift(means=body["means"], measures=pairs, queries=body["queries"])
            where = f"{system} on {query_set}, over {run_drift.queries} queries"
            for limit in limits:
                line = limit.problem(run_drift)
                if limit.applies(run_drift):
                    tried.add(limit)
                    problems += [f"{where}: {line}"] if line else []
                elif any(_measured(g, query_set, system) for g in (base, generation)):
                    tried.add(limit)
                    problems.append(
                        f"{where}: {limit} could not be tried: none of them is judged now"
                    )
    limit_names = ", ".join(map(str, limits))
    for query_set, systems in generation.facts.get("not_compared", {}).items():
        for system, why in systems.items() if limits else ():
            problems.append(f"{system} on {query_set}: {limit_names} could not be tried: not {why}")
            tried.update(limits)
    return problems + [
        f"{limit} could not be tried: no query set has a run to try it on"
        for limit in limits
        if limit not in tried
    ]


def _measured(generation: Generation, query_set: str, system: str) -> bool:
    return bool(generation.facts.get("measures", {}).get(query_set, {}).get(system))


@dataclass(frozen=True, slots=True)
class Changes:
    """Numbers of passages, by their ids."""

    added: int
    removed: int
    changed: int
    """Passages that kept their id and have another text."""
    unchanged: int


def changes(ids: Stored, older: Stored) -> Changes:
    """Differences between a collection and an older one, by their ids and the hashes of texts.

    Ids are compared by their 64-bit hashes, so the numbers are exact but for a collision.
    """
    texts, older_texts = TextHashes(ids).hashes, TextHashes(older).hashes
    num_rows = num_stayed = num_changed = 0
    for rows, older_rows in rows_by_id(ids, older):
        stayed = older_rows >= 0
        other = (texts[rows[stayed]] != older_texts[older_rows[stayed]]).any(axis=1)
        num_rows += len(rows)
        num_stayed += int(stayed.sum())
        num_changed += int(other.sum())
    return Changes(
        added=num_rows - num_stayed,
        removed=len(older_texts) - num_stayed,
        changed=num_changed,
        unchanged=num_stayed - num_changed,
    )
