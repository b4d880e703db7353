"""A recipe loaded from Python, run as a pipeline; its stores, runs and measures."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from raypipe import config, numerics, schema
from raypipe.config.rules import units_of
from raypipe.errors import InputError
from raypipe.names import Role, StoreName, of_collection, of_queries, of_stage

if TYPE_CHECKING:
    from raypipe.api.opened.ray import Ray
    from raypipe.driver.execute import Watcher
    from raypipe.storage.store import Stored


Overrides = Mapping[str, Any] | Sequence[str]
"""{"stages.bm25.depth": 100}, or, as on the command line, ["stages.bm25.depth=100"]."""


class Recipe(config.Recipe):
    """A checked recipe: its keys are attributes, paths absolute, defaults filled in; frozen."""

    @classmethod
    def load(cls, recipe: str | Path | Mapping[str, Any], overrides: Overrides = ()) -> "Recipe":
        """The recipe from a YAML file, a packaged name (`raypipe recipes`), or a dictionary.

        `${VAR}` in a file or an override is read from the environment; relative paths are
        relative to the file, or to the current folder.

        Args:
            recipe: a path, a name, or a dictionary of a recipe's keys.
            overrides: see `Overrides`.

        Raises:
            InputError: every problem found, each with file, line, dotted key and remedy.
        """
        texts = texts_of(overrides)
        if isinstance(recipe, Mapping):
            found = config.load_recipe(plain_recipe(recipe), overrides=texts, env=os.environ)
        else:
            found = config.named_recipe(str(recipe), overrides=texts, env=os.environ)
        values = {name: getattr(found, name) for name in type(found).model_fields}
        return cls.model_construct(found.model_fields_set, **values)


def inline_by_default(recipe: config.Recipe) -> config.Recipe:
    """The recipe, set to run in this process without Ray unless it names a backend."""
    resources = recipe.resources
    if "backend" in resources.model_fields_set:
        return recipe
    inline = resources.model_copy(update={"backend": "inline"})
    return recipe.model_copy(update={"resources": inline})


def plain_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe given as a dictionary, with plain values only."""
    found: dict[str, Any] = json.loads(json.dumps(dict(recipe), default=_plain))
    return found


def texts_of(overrides: Overrides) -> list[str]:
    """The overrides as on the command line.

    Raises:
        InputError: they are neither a dictionary nor a list of texts.
    """
    if isinstance(overrides, Mapping):
        return [f"{key}={_value(value)}" for key, value in overrides.items()]
    texts = [overrides] if isinstance(overrides, str) else overrides
    if not isinstance(texts, Iterable) or not all(isinstance(text, str) for text in texts):
        raise InputError(
            "overrides: expected a dictionary such as {'stages.bm25.depth': 100}, or a list such "
            f"as ['stages.bm25.depth=100']; found {overrides!r}"
        )
    return list(texts)


def _value(value: Any) -> str:
    """The value as JSON, which is also YAML; paths become texts, tuples lists."""
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """A number of numpy as Python's, a mapping as a dictionary, anything else as text."""
    if hasattr(value, "item"):
        return value.item()
    return dict(value) if isinstance(value, Mapping) else str(value)


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
    from raypipe.driver.progress import to_stderr

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
    from raypipe.driver.execute import Silent

    if not progress:
        return nullcontext(Silent())
    from raypipe.driver.progress import TerminalWatcher

    return TerminalWatcher(sys.stderr)
