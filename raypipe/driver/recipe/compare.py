"""`--frozen`: refuse before any work when a setting differs from the last invocation's."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from raypipe.config.recipe import Recipe
from raypipe.config.resolved import ChangedKey, changed_keys, read_resolved
from raypipe.driver.recipe.graph import Graph
from raypipe.driver.summaries import read_results, read_summary, undamaged
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, RefusedError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import Role, StoreName
from raypipe.stages.stage import Stage
from raypipe.storage.ledger import find_spec, read_manifest
from raypipe.storage.records import Manifest
from raypipe.storage.spec import Change, StageSpec
from raypipe.storage.store import Stored

_Difference = tuple[str, tuple[Change, ...], str]
"""The name of a store, the settings of it that changed, and how that is told."""


_REMEDY = "run once without --frozen to take the change"


class _Unknown(Exception):
    """The last invocation did not get this far, so there is nothing to compare with."""


def refuse_changes(
    recipe: Recipe,
    workspace: Workspace,
    models: Mapping[str, ModelFolder] | None = None,
    *,
    written: Recipe | None = None,
) -> None:
    """Compare the recipe's settings with those of the last invocation's stores; reads no content.

    Args:
        recipe: with local files.
        workspace: of the last invocation.
        models: those of the recipe, by name.
        written: the recipe as the workspace keeps it, if it is another.

    Raises:
        RefusedError: another recipe's name, or a stage's settings changed, or the stage is new. The
            first line names the recipe's keys that did it, and the remedy; then one for each stage.
    """
    last = _last_name(workspace)
    if last not in (None, recipe.name):
        raise RefusedError(
            f"--frozen: name: expected {last}, the last one's, found {recipe.name}; set that back, "
            f"or {_REMEDY}"
        )
    compared = _Compared(workspace)
    graph = Graph(recipe, compared, models=models or {})
    reported: list[str | None] = [name for name, q in recipe.queries.items() if q.report]
    for name, stage in recipe.stages.items():
        for query_set in [None] if stage.produces == "index" else reported:
            try:
                graph.system(name, query_set)
            except _Unknown:
                continue
    if compared.differences:
        lines = [f"{store}: {text}" for store, _, text in compared.differences]
        first = _told(written or recipe, workspace, compared.differences)
        raise RefusedError("\n".join([f"--frozen: {first}", *dict.fromkeys(lines)]))


def _told(recipe: Recipe, workspace: Workspace, differences: Sequence[_Difference]) -> str:
    """The recipe's keys that made the differences, with both values, and the remedy."""
    try:
        changed = changed_keys(workspace.folder / "recipe.yaml", recipe)
    except InputError:
        return f"settings differ from the last invocation's; {_REMEDY}"
    changed = [key for key in changed if key.decides()]
    if not changed:
        return (
            "no key of the recipe changed since the last invocation, so a model's files, a library "
            f"or raypipe did; put them back, or {_REMEDY}"
        )
    keys = [key for each in differences for key in _keys_of(each, changed)]
    return f"{', '.join(dict.fromkeys(map(str, keys)))}; set that back, or {_REMEDY}"


def _keys_of(difference: _Difference, changed: Sequence[ChangedKey]) -> Sequence[ChangedKey]:
    """The changed keys that made a difference, as far as names and values tell; else all."""
    store, changes, _ = difference
    last = {change.field.rpartition(".")[2] for change in changes}
    values = [(change.old, change.new) for change in changes]
    keys = [
        each
        for each in changed
        if each.key.rpartition(".")[2] in last or (each.old, each.new) in values
    ]
    if keys:
        return keys
    parts = {*re.split("[@.]", store)}
    return [each for each in changed if parts & {*each.key.split(".")[1:2]}] or changed


def _last_name(workspace: Workspace) -> str | None:
    """The name of the recipe that worked here last: that of recipe.yaml, or else of its results."""
    with suppress(InputError):
        return read_resolved(workspace.folder / "recipe.yaml").get("name")
    results = undamaged(read_results, workspace.folder)
    last = results or read_summary(workspace.folder) or {}
    name: str | None = last.get("recipe")
    return name


@dataclass
class _Compared:
    """The stores of the last invocation: differences are noted, nothing is computed."""

    workspace: Workspace
    differences: list[_Difference] = field(default_factory=list)

    def _before(self, store: str) -> str | None:
        """The fingerprint that the invocation used whose results stand.

        One that ended before its work may have left other references.
        """
        shown = sorted(each for each in self.workspace.shown if each.startswith(f"{store}/"))
        found = self.workspace.refs().get(store)
        return shown[0].rpartition("/")[2] if shown and f"{store}/{found}" not in shown else found

    def fixed(self, name: StoreName) -> Stored | None:
        """None: every store is compared."""
        return None

    def ensure(self, name: StoreName, stage: Stage) -> Stored:
        """The last invocation's store of that name; compares its settings.

        Raises:
            _Unknown: it does not exist or is not complete.
        """
        store, stores = str(name), self.workspace.stores
        before = self._before(store)
        if name.role in (Role.PIECES, Role.SCORES):  # a run's own settings say what it is made of
            return Stored(stores, Manifest(store, before or "", (), ()))
        if before is None:
            self.differences.append((store, (), "not in the last invocation"))
            raise _Unknown
        spec = find_spec(stores, store, before)
        if spec is None:
            gone = "its store was deleted, so its settings cannot be compared"
            self.differences.append((store, (), gone))
            raise _Unknown
        changes = spec.settings_diff(stage.spec)
        if changes:
            self.differences.append((store, tuple(changes), "; ".join(map(str, changes))))
        manifest = read_manifest(stores, store, before)
        if manifest is None and store in (sources := self.workspace.sources()):
            manifest = read_manifest(stores, store, sources[store])  # the one before it
        if manifest is None:
            raise _Unknown
        return Stored(stores, manifest)

    def find(self, name: StoreName, spec: StageSpec) -> Stored | None:
        """The last invocation's store, if its settings are the same."""
        store, stores = str(name), self.workspace.stores
        before = self._before(store)
        found = None if before is None else find_spec(stores, store, before)
        if before is None or found is None or found.settings_diff(spec):
            return None
        manifest = read_manifest(stores, store, before)
        return None if manifest is None else Stored(stores, manifest)
