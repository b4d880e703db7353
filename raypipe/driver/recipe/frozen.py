"""`--frozen`: refuse before any work when a setting differs from the last invocation's."""

from raypipe.config import Recipe
from raypipe.driver.recipe.graph import Graph, Runs
from raypipe.driver.workspace import Workspace
from raypipe.errors import RefusedError
from raypipe.names import StoreName
from raypipe.stages.stage import Stage
from raypipe.storage.store_records import find_spec, read_manifest
from raypipe.storage.stored import Stored


class _Unknown(Exception):
    """The last invocation did not get that far: there is nothing to compare with."""


def refuse_changes(recipe: Recipe, workspace: Workspace) -> None:
    """Walk the recipe over the stores of the last invocation, comparing settings, not content.

    Raises:
        RefusedError: a stage's settings changed, or it is new; each on a line of its own.
    """
    refs = workspace.refs()
    lines: list[str] = []

    def ensure(name: StoreName, stage: Stage) -> Stored:
        store = str(name)
        before = refs.get(store)
        if before is None:
            lines.append(f"{store}: not in the last invocation")
            raise _Unknown
        spec = find_spec(workspace.stores, store, before)
        if spec is None:
            lines.append(f"{store}: its store is gone, so its settings cannot be compared")
            raise _Unknown
        changes = spec.settings_diff(stage.spec)
        if changes:
            lines.append(f"{store}: {'; '.join(map(str, changes))}")
        manifest = read_manifest(workspace.stores, store, before)
        if manifest is None:
            raise _Unknown
        return Stored(workspace.stores, manifest)

    graph = Graph(recipe, ensure, compares_only=True)
    for name, stage in recipe.stages.items():
        for query_set in [n for n, q in recipe.queries.items() if q.report] or [""]:
            try:
                if stage.do in ("index", "encode"):
                    graph.index(name)
                elif query_set:
                    graph.run(name, query_set, Runs())
            except _Unknown:
                continue
    if lines:
        raise RefusedError("--frozen: " + "\n".join(dict.fromkeys(lines)))
