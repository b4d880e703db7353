"""A finished pipeline's workspace, opened for reading: its runs with their true scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.config import Recipe, load_recipe, read_resolved
from raypipe.config.pipeline.units import units_of
from raypipe.driver.machine.inputs import with_copies
from raypipe.driver.recipe.read_first import read_first
from raypipe.driver.recipe.written.builtin import with_files
from raypipe.driver.recipe.written.topics import with_topics
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.workspace import Workspace
from raypipe.errors import IncompleteError, InputError
from raypipe.names import Role, StoreName, of_collection, of_queries, of_stage
from raypipe.stages.run_tables import with_ids
from raypipe.stages.texts.ids import column_of_rows, ids_of_rows
from raypipe.storage.store_records import read_manifest
from raypipe.storage.stored import Stored
from raypipe.vocabulary import Unit


def open_finished(folder: Path) -> "Finished":
    """The workspace of a complete invocation of `raypipe pipeline`.

    Raises:
        InputError: no workspace, or no pipeline's.
        IncompleteError: the last invocation is not complete.
    """
    workspace = open_workspace(folder)
    summary = workspace.read_summary() or {}
    if summary.get("status") != "complete":
        raise IncompleteError(
            f"{folder}: the last invocation is not complete ({summary.get('status')}); run its "
            "recipe again with the same --out"
        )
    if not isinstance(summary.get("systems"), dict):
        raise InputError(f"{folder}: expected the workspace of a pipeline, found no runs")
    path = folder / "recipe.yaml"
    return Finished(workspace, load_recipe(read_resolved(path), source=str(path)), summary)


@dataclass(frozen=True)
class Finished:
    """What the last invocation of a workspace left."""

    workspace: Workspace
    recipe: Recipe
    summary: Mapping[str, Any]

    @property
    def query_sets(self) -> list[str]:
        """The query sets with runs, in the recipe's order."""
        return list(self.summary["systems"])

    def systems(self, query_set: str, unit: Unit = "passages") -> list[str]:
        """The stages that made a run of passages or of documents, in the recipe's order."""
        units = units_of(self.recipe.stages)
        return [name for name in self.summary["systems"][query_set] if units[name] == unit]

    def run(self, system: str, query_set: str) -> pa.Table:
        """A run with its true scores, schema.RUN."""
        return self._stored(of_stage(system, query_set)).whole_table(schema.RUN)

    def pairs(self, stage: str, query_set: str) -> pa.Table:
        """A duoBERT stage's scores of pairs, schema.SCORES."""
        return self._stored(of_stage(stage, query_set)).whole_table(schema.SCORES)

    def named(self, run: pa.Table, query_set: str, unit: Unit = "passages") -> pa.Table:
        """A run of schema.RUN with original ids, schema.RUN_FILE."""
        role = Role.PASSAGES if unit == "passages" else Role.DOCUMENTS
        return with_ids(run, self.queries(query_set), self._stored(of_collection(role)))

    def texts(self, rows: NDArray[np.int64]) -> list[str]:
        """The texts of passages, in the order of their rows."""
        return column_of_rows(self._stored(of_collection(Role.PASSAGES)), rows, "text")

    def passage_ids(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids of passages, in the order of their rows."""
        return ids_of_rows(self._stored(of_collection(Role.PASSAGES)), rows)

    def queries(self, query_set: str) -> pa.Table:
        """A query set, schema.QUERIES; a query's row is its position."""
        return self._stored(of_queries(query_set)).table(schema.QUERIES)

    def judgements(self, query_set: str, unit: Unit = "passages") -> pa.Table | None:
        """A query set's judgements, schema.QRELS, as its file has them now."""
        return self._judgements.get((query_set, unit))

    @cached_property
    def _judgements(self) -> Mapping[tuple[str, Unit], pa.Table]:
        folder = self.workspace.folder
        named, _ = with_copies(
            with_files(self.recipe, folder / "python-docs"), folder / "inputs", collection=False
        )
        return read_first(with_topics(named, self.workspace, lambda line: None))

    @cached_property
    def _used(self) -> Mapping[str, str]:
        """Store -> fingerprint, of the last invocation."""
        return dict(place.split("/") for place in self.summary["stores"])

    def _stored(self, name: StoreName) -> Stored:
        store = str(name)
        manifest = None
        if store in self._used:
            manifest = read_manifest(self.workspace.stores, store, self._used[store])
        if manifest is None:
            raise IncompleteError(
                f"{self.workspace.folder}: the store {store} is not there; run the recipe again "
                "with the same --out"
            )
        return Stored(self.workspace.stores, manifest)
