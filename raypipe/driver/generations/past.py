"""Existing generations: their history, the one to read, acceptance and the way back."""

from datetime import UTC, datetime
from typing import Any

from raypipe.driver.generations.publish import create
from raypipe.driver.invocation import invocation, working_in
from raypipe.driver.summaries import standing_of
from raypipe.driver.workspace import Workspace
from raypipe.errors import CorruptError, IncompleteError, InputError
from raypipe.storage.cleanup import wait_for_gc
from raypipe.storage.generations import (
    Generation,
    forget_refused,
    generation_names,
    generation_numbers,
    newest_generation,
    none_yet,
    read_generation,
    refused_generation,
    refused_numbers,
)
from raypipe.storage.records import Json
from raypipe.storage.storage import Storage


def history(stores: Storage, name: str) -> list[dict[str, Any]]:
    """The generations that stand, oldest first: their numbers and facts.

    What was refused since the newest, and can be accepted, comes last; it has `refused`.
    """
    numbers = generation_numbers(stores, name)
    found: list[dict[str, Any]] = [
        {"number": number, **read_generation(stores, name, number).facts} for number in numbers
    ]
    refused = refused_generation(stores, name, numbers[-1] + 1 if numbers else 1)
    if refused is not None:
        found.append({"number": refused.number, "refused": True, **refused.facts})
    return found


def rollback(workspace: Workspace, name: str, to: int | None = None) -> Generation:
    """A new generation with the stores of an older one (None: of the one before the newest).

    Raises:
        InputError: there is no such generation, or it is the current one.
        IncompleteError: stores that it names were deleted.
        RefusedError: an invocation is working in the workspace, another one has published a
            generation at the same time, or gc does not end.
    """
    with working_in(workspace.folder, workspace.own, workspace.gone):
        workspace.settle()
        return _rolled_back(workspace, name, to)


def _rolled_back(workspace: Workspace, name: str, to: int | None) -> Generation:
    stores = workspace.stores
    numbers = generation_numbers(stores, name)
    if not numbers:
        raise InputError(none_yet(stores, name))
    if to is None and len(numbers) < 2:
        raise InputError(f"{name}: no earlier generation to go back to")
    target = numbers[-2] if to is None else to
    if target == numbers[-1]:
        raise InputError(f"generation {target} of {name} is the current one")
    older = read_generation(stores, name, target)
    facts = {**_told_of(older), "workspace": workspace.id, "rolled_back_to": target}
    return _published(workspace, Generation(name, numbers[-1] + 1, older.stores, facts))


def accept(workspace: Workspace, name: str) -> Generation:
    """What the last re-indexing built beyond a limit, as the current generation.

    If an earlier acceptance ended before the refusal was removed, this one removes it.

    Raises:
        InputError: nothing was refused.
        IncompleteError: stores that it names were deleted.
        RefusedError: the generation that it was compared with is no longer current.
    """
    stores = workspace.stores
    newest = newest_generation(stores, name)
    number = newest.number + 1 if newest else 1
    found = refused_generation(stores, name, number)
    if newest is not None and refused_generation(stores, name, newest.number) == newest:
        forget_refused(stores, name, (newest.number,))
        return newest
    if found is None:
        others = ", ".join(
            line
            for line in generation_names(stores)
            if line != name and refused_numbers(stores, line)
        )
        raise InputError(
            f"{name}: nothing was refused after generation {number - 1}, so nothing can be "
            "accepted; what was refused before was compared with an older one: run again"
            + (f". Something was refused of {others}: is one of them the recipe?" if others else "")
        )
    made = _published(workspace, Generation(name, number, found.stores, found.facts))
    forget_refused(stores, name, (number,))
    return made


def _published(workspace: Workspace, generation: Generation) -> Generation:
    """The generation; until its record says so, the workspace's refs keep its stores from gc."""
    stores, places = workspace.stores, [f"{a}/{b}" for a, b in generation.stores.items()]
    with workspace.keeping(places):
        for place in places:
            wait_for_gc(stores, place)
        gone = [s for s in generation.stores if generation.stored(stores, s) is None]
        if gone:
            raise IncompleteError(
                f"generation {generation.number} of {generation.name}: {len(gone)} of its stores "
                f"were deleted, first {gone[0]}"
            )
        create(stores, generation)
    return generation


def _told_of(generation: Generation) -> dict[str, Any]:
    """An older generation's facts that hold for one with the same stores."""
    kept = ("passages", "measures")
    facts = {key: value for key, value in generation.facts.items() if key in kept}
    return {**facts, "made": datetime.now(UTC).isoformat(timespec="seconds")}


_OF_THE_BUILD = ("systems", "measures", "notes", "stages", "device", "versions")


def accept_refused(workspace: Workspace, name: str) -> Generation:
    """The generation that is current now: what the last re-indexing built beyond a limit.

    The summary says `complete` again, and of the build what the refused invocation said, as long as
    its files stand; else those of the last complete invocation are shown.

    Raises:
        InputError: nothing was refused.
        IncompleteError: stores that it names were deleted.
        RefusedError: another invocation is working, or the generation that it was compared with is
            no longer current.
    """
    before = _summary(workspace)
    with invocation(workspace, name) as summary:  # nobody else publishes meanwhile
        made = accept(workspace, name)
        built = {f"{store}/{of_it}" for store, of_it in made.stores.items()}
        same = before.get("measures") == made.facts.get("measures", {})  # by the same qrels
        if same and "files" in before and built.issubset(before.get("stores", ())):
            workspace.used |= {*before["stores"]}
            summary |= {key: before[key] for key in _OF_THE_BUILD if key in before}
        summary["generations"] = generation_numbers(workspace.stores, name)
        summary["generation"] = {"number": made.number, "published": True, **made.facts}
    return made


def _summary(workspace: Workspace) -> dict[str, Json]:
    """What the last invocation said; nothing if that is damaged, since this one writes it anew."""
    try:
        return standing_of(workspace.read_summary() or {})
    except CorruptError:
        return {}
