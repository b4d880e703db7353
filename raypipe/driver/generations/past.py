"""Existing generations: their history, the one to read, acceptance and the way back."""

from datetime import UTC, datetime
from typing import Any

from raypipe.driver.generations.publish import create
from raypipe.driver.invocation import invocation, working_in
from raypipe.driver.summaries import read_results, undamaged
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.storage.generations import (
    Generation,
    generation_names,
    generation_numbers,
    newest_generation,
    next_number,
    none_yet,
    read_generation,
    record_numbers,
    refused_generation,
    refused_since,
    standing_generations,
)
from raypipe.storage.storage import Storage


def history(stores: Storage, name: str) -> list[dict[str, Any]]:
    """The generations that are not retired, oldest first: their numbers and facts.

    A refused one has `refused`, which says why; it stays as long as generations of its age do.
    """
    return [each.told() for each in standing_generations(stores, name)]


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
    number = next_number(stores, name)  # first: who publishes from here on takes it
    numbers = generation_numbers(stores, name)
    if not numbers:
        raise InputError(none_yet(stores, name))
    if to is None and len(numbers) < 2:
        raise InputError(f"{name}: no earlier generation to go back to")
    target = numbers[-2] if to is None else to
    if target == numbers[-1]:
        raise InputError(f"generation {target} of {name} is the current one")
    older = read_generation(stores, name, target)
    facts = {**_kept_facts(older), "workspace": workspace.id, "rolled_back_to": target}
    made = Generation(name, number, older.stores, facts)
    create(workspace, made)
    return made


def accept(workspace: Workspace, name: str, refused: int | None = None) -> Generation:
    """A new generation with the content of a refused one.

    Without a number it is the one that was refused since the current generation, if there is one
    alone. One that is current already, as an acceptance that was killed left it, is returned.

    Raises:
        InputError: there is no such refused generation, or there are several.
        IncompleteError: stores that it names were deleted.
        RefusedError: another invocation has published a generation at the same time.
    """
    stores = workspace.stores
    number = next_number(stores, name)  # first: who publishes from here on takes it
    newest = newest_generation(stores, name)
    if refused is None:
        generation = _only_refused(stores, name, newest)
    else:
        generation = refused_generation(stores, name, refused)
    if newest is not None and newest.facts.get("accepted") == generation.number:
        return newest
    facts = {
        **generation.facts,
        "made": _now(),
        "workspace": workspace.id,
        "accepted": generation.number,
    }
    made = Generation(name, number, generation.stores, facts)
    create(workspace, made)
    return made


def _only_refused(stores: Storage, name: str, current: Generation | None) -> Generation:
    """The one that was refused since the current generation.

    Raises:
        InputError: none was, or several were.
    """
    refused = refused_since(stores, name, current)
    if len(refused) == 1:
        return refused[0]
    if refused:
        lines = [f"  {each.number}: {each.facts.get('made')}, {each.refused}" for each in refused]
        raise InputError(
            f"{name}: {len(refused)} generations were refused since the current one; say which, "
            f"as in `--accept {refused[-1].number}`:\n" + "\n".join(lines)
        )
    after = "" if current is None else f" after generation {current.number}"
    others = ", ".join(
        line
        for line in generation_names(stores)
        if line != name and refused_since(stores, line, newest_generation(stores, line))
    )
    raise InputError(
        f"{name}: nothing was refused{after}, so there is nothing to accept without a number; "
        "`raypipe history` lists what was refused before"
        + (f". Something was refused of {others}: is one of them the recipe?" if others else "")
    )


def _kept_facts(generation: Generation) -> dict[str, Any]:
    """An older generation's facts that hold for one with the same stores."""
    kept = ("passages", "measures")
    facts = {key: value for key, value in generation.facts.items() if key in kept}
    return {**facts, "made": _now()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


_OF_THE_BUILD = (
    "systems", "measures", "differences", "notes", "made_from", "stages", "device", "versions",
)  # fmt: skip


def accept_refused(workspace: Workspace, name: str, refused: int | None = None) -> Generation:
    """The generation that is current now, with the content of a refused one; see `accept`.

    The results of the build stand again as complete, as long as no other ones were written over
    them; else those that stand are left as they are.

    Raises:
        InputError: there is no such refused generation, or there are several.
        IncompleteError: stores that it names were deleted.
        RefusedError: another invocation is working, or has published a generation at the same time.
    """
    refused_results = undamaged(read_results, workspace.folder) or {}
    with invocation(workspace, name) as summary:  # nobody else publishes meanwhile
        made = accept(workspace, name, refused)
        built = {f"{store}/{of_it}" for store, of_it in made.stores.items()}
        stores, measures = (refused_results.get(key) for key in ("stores", "measures"))
        same = measures == made.facts.get("measures", {})  # by the same qrels
        if stores is not None and same and built.issubset(stores):
            workspace.used |= {*stores}
            summary |= {
                key: refused_results[key] for key in _OF_THE_BUILD if key in refused_results
            }
        summary["generations"] = record_numbers(workspace.stores, name)
        summary["generation"] = {"number": made.number, "published": True, **made.facts}
    return made
