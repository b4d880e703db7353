"""A generation of a re-indexed workspace, opened for reading."""

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from raypipe import config, schema
from raypipe.api.given.numbers import count_of
from raypipe.api.given.texts import Given, texts_of
from raypipe.api.opened.closing import Closing
from raypipe.api.opened.held import Held, listed
from raypipe.api.opened.held_search import HeldSearch
from raypipe.config.rules import units_of
from raypipe.driver.mirror import mirror_of
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.verbs.reading import line_of_generations
from raypipe.errors import InputError
from raypipe.names import Role, of_collection, of_queries, of_stage
from raypipe.stages.run_tables import with_ids
from raypipe.stages.texts.ids import column_of_rows, id_index
from raypipe.storage.generations import Generation, generation_numbers, held_generation
from raypipe.uris import in_bucket


def open_index(folder: str | Path, generation: int | None = None) -> "Index":
    """The current generation of a workspace of `raypipe reindex`, or the one with this number.

    Of a workspace without generations it opens the stores that its last invocation used.

    It is read in this process, without Ray, whatever the collection's files hold by now. A lease
    keeps a generation from being deleted until `close` or the end of a `with` block; in a workspace
    that may not be written there is no lease.

    Args:
        folder: the workspace, or its URI in a bucket.
        generation: a number that `raypipe history` lists; by default the newest.

    Raises:
        InputError: no workspace, or no generation of this number.
    """
    folder = mirror_of(str(folder)) if in_bucket(str(folder)) else Path(folder)
    number = None if generation is None else count_of("generation", generation)
    workspace, name = open_workspace(folder), line_of_generations(folder)
    stores = workspace.stores
    path = folder / "recipe.yaml"
    with ExitStack() as end:
        if number is None and not generation_numbers(stores, name):
            found = Generation(name, 0, workspace.refs())
        else:
            found = end.enter_context(held_generation(stores, name, number))
        recipe = config.load_recipe(config.read_resolved(path), source=str(path))
        return Index(Held(stores, found, recipe, end.pop_all()))


class Index(Closing):
    """A generation that is read; for one thread at a time."""

    def __init__(self, held: Held) -> None:
        """Use `open_index`."""
        self._held, self._search = held, HeldSearch(held)
        self._end = weakref.finalize(self, held.end.close)

    @property
    def name(self) -> str:
        """The recipe's name."""
        return self._held.generation.name

    @property
    def number(self) -> int:
        """The generation's number; 0 for a workspace without generations."""
        return self._held.generation.number

    @property
    def facts(self) -> dict[str, Any]:
        """When it was made, and what changed, as in `raypipe history --json`."""
        return dict(self._held.generation.facts)

    @property
    def stages(self) -> dict[str, str]:
        """The recipe's stages that this generation holds: name -> what they do."""
        return {name: self._held.recipe.stages[name].do for name in self._held.stages()}

    @property
    def num_passages(self) -> int:
        """The number of passages in the collection."""
        return self._held.passages.num_rows

    def search(
        self,
        queries: Given,
        stage: str | None = None,
        *,
        depth: int | None = None,
        k1: float | None = None,
        b: float | None = None,
        device: str = "auto",
    ) -> pa.Table:
        """The best passages of each query: query_id, passage_id, rank from 1, score float32.

        The run is that of `raypipe search`: queries in their order, passages best first, ties in
        the order of the collection.

        Args:
            queries: a list of texts, a dictionary id -> text, or a table with query_id and text.
            stage: an `encode` stage of the recipe (exact search), an `index` stage (BM25), or a
                `search` stage, which brings its own depth, k1 and b. Not needed where there is one
                index.
            depth: number of passages per query; 1000 if nothing says otherwise.
            k1: BM25's parameter, like `b`; 0.9 and 0.4 if nothing says otherwise.
            b: from 0 to 1.
            device: where queries are encoded: auto, cpu or cuda.

        Raises:
            InputError: bad queries or settings, no such stage, or a model that has changed since it
                encoded the passages.
            RowsFailed: embeddings of queries that are not finite, with their rows.
            IncompleteError: a store of the generation was deleted.
        """
        self._refuse_closed()
        asked = texts_of(queries, "query")
        return self._search.search(asked, stage, depth=depth, k1=k1, b=b, device=device)

    def run(self, stage: str, query_set: str) -> pa.Table:
        """A run that was published: query_id, passage_id, rank from 1 and the true score float32.

        Raises:
            InputError: the generation has no run of this stage for this query set.
            IncompleteError: its store was deleted.
        """
        self._refuse_closed()
        made, name = self._held.recipe.stages.get(stage), of_stage(stage, query_set)
        if made is None or made.produces != "run" or not self._held.has(name):
            raise InputError(
                f"{self._held.title} has no run of {stage!r} for the queries {query_set!r}; it has "
                f"the stages {listed(self._held.stages())}"
            )
        queries = self._held.stored(of_queries(query_set)).table(schema.QUERIES)
        of_documents = units_of(self._held.recipe.stages)[stage] == "documents"
        role = Role.DOCUMENTS if of_documents else Role.PASSAGES
        run = self._held.stored(name).whole_table(schema.RUN)
        return with_ids(run, queries, self._held.stored(of_collection(role)))

    def passages(self, ids: Sequence[str] | pa.Array | pa.ChunkedArray) -> dict[str, str]:
        """Passage id -> text, each id once, in the order of the collection.

        As this order decides ties, the dictionary suits `rerank`, `score` and `fuse`.

        Args:
            ids: passage ids in any order, for example a run's column.

        Raises:
            InputError: ids that the collection does not have, with the first ten.
            IncompleteError: a store of the generation was deleted.
        """
        self._refuse_closed()
        if isinstance(ids, str):
            raise InputError("passages: found one id; expected several: put it in a list")
        wanted = [str(i) for i in (ids.to_pylist() if hasattr(ids, "to_pylist") else ids)]
        collection, index = self._held.passages, self._held.stored(of_collection(Role.IDS))
        rows = id_index(collection, index).rows_of(wanted)
        unknown = list(dict.fromkeys(wanted[place] for place in np.flatnonzero(rows < 0)))
        if unknown:
            raise InputError(
                f"passages: {len(unknown)} ids are not in {self._held.title}: {listed(unknown)}"
            )
        columns = ("passage_id", "text")
        names, texts = (column_of_rows(collection, np.unique(rows), c) for c in columns)
        return dict(zip(names, texts, strict=True))

    def close(self) -> None:
        """Give the generation up, so that it may be deleted; once is enough."""
        self._end()

    def __repr__(self) -> str:
        return f"<{self._held.title}{'' if self._end.alive else ', closed'}>"

    def _refuse_closed(self) -> None:
        if not self._end.alive:
            raise InputError(f"{self._held.title}: closed; open it again with open_index")
