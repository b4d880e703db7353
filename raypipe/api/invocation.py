"""Runs a recipe from Python; the results are tables."""

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from raypipe import config, numerics, schema
from raypipe.api.recipe import Overrides, Recipe, inline_by_default
from raypipe.config.rules import units_of
from raypipe.errors import InputError
from raypipe.names import Role, StoreName, of_collection, of_queries, of_stage

if TYPE_CHECKING:
    from raypipe.api.opened.ray import Ray
    from raypipe.driver.recipe.watching import Watcher
    from raypipe.storage.store import Stored


@dataclass(frozen=True)
class Invocation:
    """The result of running a recipe."""

    folder: Path
    """The workspace, with `runs`, `measures` and `stores` in it."""
    summary: dict[str, Any] = field(repr=False)
    """The content of summary.json."""
    table: str = field(repr=False)
    """The table of measures as Markdown; empty if nothing was measured."""
    recipe: config.Recipe = field(repr=False)

    @cached_property
    def runs(self) -> dict[str, dict[str, pa.Table]]:
        """Query set -> system -> run: query_id, passage_id, rank from 1 and the true score.

        Read from the stores at the first use, and kept.

        Raises:
            IncompleteError: a store has been removed.
        """
        from raypipe.stages.run_tables import with_ids

        found: dict[str, dict[str, pa.Table]] = {}
        for query_set, queries in self.recipe.queries.items():
            names = [name for name in self.recipe.stages if self._is_run(name, query_set)]
            if not queries.report or not names:
                continue
            texts = self.store(of_queries(query_set)).table(schema.QUERIES)
            stored = {name: self.store(of_stage(name, query_set)) for name in names}
            found[query_set] = {
                name: with_ids(run.whole_table(schema.RUN), texts, self._ranked(name))
                for name, run in stored.items()
            }
        return found

    def _ranked(self, name: str) -> "Stored":
        """The passages or documents that are the rows of a stage's run."""
        role = {"passages": Role.PASSAGES, "documents": Role.DOCUMENTS}
        unit = units_of(self.recipe.stages)[name] or "passages"
        return self.store(of_collection(role[unit]))

    def _is_run(self, name: str, query_set: str) -> bool:
        made = str(of_stage(name, query_set)) in self.summary["stages"]
        return made and self.recipe.stages[name].produces == "run"

    def store(self, name: StoreName) -> "Stored":
        """A store that it computed or found.

        Raises:
            IncompleteError: it has been removed.
        """
        from raypipe.errors import IncompleteError
        from raypipe.storage.ledger import read_manifest
        from raypipe.storage.root import open_storage
        from raypipe.storage.store import Stored

        storage = open_storage(self.recipe.stores or str(self.folder / "stores"))
        fingerprint = self.summary["stages"][str(name)]["fingerprint"]
        manifest = read_manifest(storage, str(name), fingerprint)
        if manifest is None:
            raise IncompleteError(f"{name}/{fingerprint}: no longer in the stores; run it again")
        return Stored(storage, manifest)


def run(
    recipe: config.Recipe | str | Path | Mapping[str, Any],
    out: str | Path = "raypipe-work",
    *,
    overrides: Overrides = (),
    only: str | None = None,
    until: str | None = None,
    frozen: bool = False,
    progress: bool = False,
    ray: "Ray | None" = None,
) -> Invocation:
    """Run a recipe to completion, measure and summarise, like `raypipe pipeline`.

    It runs in this process, without Ray, unless the recipe sets `resources.backend` or an opened
    Ray is given, which then serves the next call too. The same call
    resumes interrupted work, and computes only what depends on a changed setting.

    Args:
        recipe: what `Recipe.load` returns or takes.
        out: the workspace; created if new, resumed if not.
        overrides: dotted keys, as in `Recipe.load`; for a loaded recipe, give them there.
        only: run only this stage; its inputs must be stored.
        until: run this stage and everything it needs.
        frozen: refuse to run if a setting differs from the last run's.
        progress: print one line per stage to stderr.
        ray: what `open_ray` opened, for a recipe that does not set `resources.backend` to inline.

    Raises:
        InputError: a bad recipe, or missing or bad inputs; lists every problem.
        RaypipeError: another reason that ended the run; see `raypipe.errors`.
    """
    if isinstance(recipe, config.Recipe) and overrides:
        raise InputError("overrides: the recipe is loaded already; give them to Recipe.load")
    loaded = recipe if isinstance(recipe, config.Recipe) else Recipe.load(recipe, overrides)
    numerics.set_strict()
    from raypipe.api.opened.ray import shared_of
    from raypipe.driver.pipeline import Options, run_pipeline
    from raypipe.driver.report.lines import to_stderr

    wanted, folder = loaded if ray is not None else inline_by_default(loaded), Path(out)
    shared = None if ray is None else shared_of(ray)
    address = os.environ.get("RAY_ADDRESS") if shared is None else shared.address
    options = Options(only=only, until=until, frozen=frozen, ray_address=address, shared=shared)
    say = to_stderr if progress else lambda line: None
    with watching(progress) as watcher:
        outcome = run_pipeline(wanted, folder, options, watcher=watcher, say=say)
    return Invocation(folder, outcome.summary, outcome.table, wanted)


def watching(progress: bool) -> "AbstractContextManager[Watcher]":
    """A watcher with a line for each stage on stderr, or one that tells nobody."""
    from raypipe.driver.recipe.watching import Silent

    if not progress:
        return nullcontext(Silent())
    from raypipe.driver.report.progress import TerminalWatcher

    return TerminalWatcher(sys.stderr)
