"""Accepts what a limit refused: an invocation of its own, which runs no stage."""

from raypipe.driver.generations.past import accept
from raypipe.driver.invocation import invocation
from raypipe.driver.summaries import standing_of
from raypipe.driver.workspace import Workspace
from raypipe.errors import CorruptError
from raypipe.storage.generations import Generation, generation_numbers
from raypipe.storage.records import Json

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
