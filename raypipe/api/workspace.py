"""A workspace from Python: a recipe is run in it, and its generations are opened."""

import json
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from raypipe import numerics, schema
from raypipe.api.inputs import (
    Given,
    Texts,
    count_of,
    device_of,
    model_of,
    number_of,
    texts_of,
)
from raypipe.config.load import load_recipe, named_recipe
from raypipe.config.recipe import Recipe
from raypipe.config.resolved import read_resolved
from raypipe.config.rules import units_of
from raypipe.driver.mirror import mirror_of
from raypipe.driver.upkeep.status import line_of_generations, open_workspace
from raypipe.errors import IncompleteError, InputError, some
from raypipe.kinds.encode import Encode, Truncate, encode_of
from raypipe.kinds.lucene import ImpactIndex, LuceneIndex
from raypipe.kinds.search import Bm25Search, DenseSearch, Rm3, Tuned
from raypipe.names import Role, StoreName, of_collection, of_queries, of_stage
from raypipe.stages.ids import column_of_rows, id_index
from raypipe.stages.run_tables import dense_table, run_table, with_ids
from raypipe.storage.generations import Generation, generation_numbers, held_generation
from raypipe.storage.root import open_storage
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored
from raypipe.uris import address, in_bucket
from raypipe.vocabulary import BM25_B, BM25_K1, DEPTH

if TYPE_CHECKING:
    from raypipe.driver.execute import Watcher
    from raypipe.engines.lucene.search import LuceneSearcher


def run(
    recipe: Recipe | str | Path | Mapping[str, Any],
    out: str | Path = "raypipe-work",
    *,
    overrides: Mapping[str, Any] | None = None,
    until: str | None = None,
    frozen: bool = False,
    progress: bool = False,
) -> "Invocation":
    """Run a recipe to completion, measure and summarise, like `raypipe pipeline`.

    It runs in this process, without Ray, unless the recipe sets `resources.backend`. The same call
    resumes interrupted work, and computes only what depends on a changed setting.

    `${VAR}` in a file or an override is read from the environment; relative paths are relative to
    the file, or to the current folder.

    Args:
        recipe: a YAML file, a packaged name (`raypipe recipes`), or a dictionary of its keys.
        out: the workspace; created if new, resumed if not.
        overrides: dotted keys, {"stages.bm25.depth": 100}.
        until: run this stage and everything it needs.
        frozen: refuse to run if a setting differs from the last run's.
        progress: print one line per stage to stderr.

    Raises:
        InputError: a bad recipe, or missing or bad inputs; lists every problem.
        RaypipeError: another reason that ended the run; see `raypipe.errors`.
    """
    loaded = load(recipe, overrides)
    numerics.set_strict()
    from raypipe.driver.pipeline import Options, run_pipeline
    from raypipe.driver.progress import to_stderr

    final_recipe, folder = inline_by_default(loaded), Path(out)
    address = os.environ.get("RAY_ADDRESS")
    options = Options(until=until, frozen=frozen, ray_address=address)
    say = to_stderr if progress else lambda line: None
    with _watching(progress) as watcher:
        outcome = run_pipeline(final_recipe, folder, options, watcher=watcher, say=say)
    return Invocation(folder, outcome.summary, outcome.table, final_recipe)


@dataclass(frozen=True)
class Invocation:
    """The result of running a recipe."""

    folder: Path
    """The workspace, with `runs`, `measures` and `stores` in it."""
    summary: dict[str, Any] = field(repr=False)
    """The content of summary.json."""
    table: str = field(repr=False)
    """The table of measures as Markdown; empty if nothing was measured."""
    recipe: Recipe = field(repr=False)

    @cached_property
    def runs(self) -> dict[str, dict[str, pa.Table]]:
        """Query set -> system -> run: query_id, passage_id, rank from 1 and the true score.

        Read from the stores at the first use, and kept.

        Raises:
            IncompleteError: a store has been removed.
        """
        refs = {name: made["fingerprint"] for name, made in self.summary["stages"].items()}
        stores = open_storage(self.recipe.stores or str(self.folder / "stores"))
        made = OpenedStores(stores, Generation(self.recipe.name, 0, refs), self.recipe)
        runs = {
            query_set: {
                name: made.run(name, query_set)
                for name, stage in self.recipe.stages.items()
                if stage.produces == "run" and made.has(of_stage(name, query_set))
            }
            for query_set in self.recipe.queries
        }
        return {query_set: of_set for query_set, of_set in runs.items() if of_set}


def open_index(folder: str | Path, generation: int | None = None) -> "Index":
    """The current generation of a workspace of `raypipe reindex`, or the one with this number.

    A workspace without generations is opened with the stores that its last invocation used.

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
            opened_generation = Generation(name, 0, workspace.refs())
        else:
            opened_generation = end.enter_context(held_generation(stores, name, number))
        recipe = load_recipe(read_resolved(path), source=str(path))
        return Index(OpenedStores(stores, opened_generation, recipe, end.pop_all()))


class Index(AbstractContextManager["Index"]):
    """A generation that is read; for one thread at a time."""

    def __init__(self, stores: "OpenedStores") -> None:
        """Use `open_index`."""
        self._held = stores
        self._lucene: dict[str, LuceneSearcher] = {}
        self._end = weakref.finalize(self, stores.end.close)

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
            stage: an `encode` stage of the recipe (exact search), an `index` stage (BM25, or exact
                search of impacts), or a `search` stage, which brings its own depth, k1 and b. Not
                needed where there is one index.
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
        query_texts = texts_of(queries, "query")
        name, recipe = self._named(stage), self._held.recipe
        named_stage, searched = recipe.stages[name], name
        if isinstance(named_stage, Bm25Search | DenseSearch):
            searched, depth = named_stage.index, named_stage.depth if depth is None else depth
        depth = DEPTH if depth is None else count_of("depth", depth)
        depth = min(depth, self._held.passages.num_rows)
        index = recipe.stages[searched]
        if isinstance(index, LuceneIndex):
            k1, b = self._parameters(name, k1, b)
            rm3 = named_stage.rm3 if isinstance(named_stage, Bm25Search) else None
            run = self._bm25(query_texts, searched, k1, b, rm3, depth)
        elif k1 is None and b is None:
            run = self._dense(query_texts, searched, depth, device)
        else:
            raise InputError(f"k1, b: for BM25, and {name} searches embeddings; remove them")
        return with_ids(run, pa.table({"query_id": query_texts.ids}), self._held.passages)

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
                f"the stages {some(self._held.stages()) or 'none'}"
            )
        return self._held.run(stage, query_set)

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
        passage_ids = [str(i) for i in (ids.to_pylist() if hasattr(ids, "to_pylist") else ids)]
        collection, index = self._held.passages, self._held.stored(of_collection(Role.IDS))
        rows = id_index(collection, index).rows_of(passage_ids)
        unknown = list(dict.fromkeys(passage_ids[place] for place in np.flatnonzero(rows < 0)))
        if unknown:
            raise InputError(
                f"passages: {len(unknown)} ids are not in {self._held.title}: {some(unknown)}"
            )
        columns = ("passage_id", "text")
        names, texts = (column_of_rows(collection, np.unique(rows), c) for c in columns)
        return dict(zip(names, texts, strict=True))

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the generation up, so that it may be deleted; once is enough."""
        self._end()

    def __repr__(self) -> str:
        return f"<{self._held.title}{'' if self._end.alive else ', closed'}>"

    def _refuse_closed(self) -> None:
        if not self._end.alive:
            raise InputError(f"{self._held.title}: closed; open it again with open_index")

    def _named(self, stage: str | None) -> str:
        """The stage to search by; where none is named, the only index or embeddings."""
        indexes = self._held.indexes()
        if stage is None and len(indexes) == 1:
            return indexes[0]
        known = [*indexes, *self._held.searches()]
        if stage is None or stage not in known:
            given = "none" if stage is None else repr(stage)
            raise InputError(
                f"stage: expected a stage of {self._held.title} that can be searched, "
                f"{some(known) or 'none'}; found {given}"
            )
        return stage

    def _parameters(self, name: str, k1: float | None, b: float | None) -> tuple[float, float]:
        """BM25's, as given, or as the stage has them or tuned them, or the defaults."""
        own, stage = (BM25_K1, BM25_B), self._held.recipe.stages[name]
        if isinstance(stage, Bm25Search) and (k1 is None or b is None):
            own = self._own_parameters(name, stage)
        given = (own[0] if k1 is None else k1, own[1] if b is None else b)
        return number_of("k1", given[0], low=0), number_of("b", given[1], low=0, high=1)

    def _own_parameters(self, name: str, search: Bm25Search) -> tuple[float, float]:
        if not isinstance(search.bm25, Tuned):
            return search.bm25.k1, search.bm25.b
        from raypipe.stages.tune import chosen

        return chosen(self._held.stored(of_stage(name, role=Role.TUNE)))

    def _dense(self, queries: Texts, stage: str, depth: int, device: str) -> pa.Table:
        from raypipe.engines.exact import topk_block_stream
        from raypipe.stages.embeddings import all_vectors
        from raypipe.stages.encode import precision_of, refuse_other_model
        from raypipe.stages.impacts import search_impacts
        from raypipe.stages.in_memory import encode_texts, impacts_of_texts
        from raypipe.stages.products import TorchProducts
        from raypipe.stages.sparse import sparse_lists
        from raypipe.stages.truncate import truncated

        recipe = self._held.recipe
        index = recipe.stages[stage]
        encoded = index.embeddings if isinstance(index, ImpactIndex | Truncate) else stage
        encode, embeddings = encode_of(recipe.stages, encoded), self._held.stored(of_stage(encoded))
        model = recipe.models[encode.model]
        path = address(model.path, model.revision)
        opened = model_of(path, model.preset, settings=model.settings)
        opened = opened.in_precision(precision_of(embeddings))
        refuse_other_model(embeddings, opened)
        where = device_of(device)
        if opened.encoder.is_sparse:
            impacts = impacts_of_texts(opened, queries.texts, side="query", device=where)
            if isinstance(index, ImpactIndex):
                lines = search_impacts(self._open_lucene(stage), *impacts, depth)
                return run_table(*lines, scored_by=stage)
            span = (0, embeddings.num_rows)
            lists = sparse_lists(*impacts, embeddings, span, opened.dim, depth)
            return dense_table(0, *lists, scored_by=stage)
        vectors = encode_texts(opened, queries.texts, side="query", device=where)
        if isinstance(index, Truncate):
            vectors = truncated(vectors, index.dims, normalise=opened.encoder.normalise)
            embeddings = self._held.stored(of_stage(stage))
        blocks = all_vectors(embeddings)
        hits = topk_block_stream(vectors, blocks, depth=depth, products=TorchProducts())
        return dense_table(0, *hits, scored_by=stage)

    def _bm25(
        self, queries: Texts, stage: str, k1: float, b: float, rm3: Rm3 | None, depth: int
    ) -> pa.Table:
        from raypipe.engines.lucene.search import Feedback, search_all

        expand = None if rm3 is None else Feedback(**rm3.model_dump())
        lucene = self._open_lucene(stage)
        hits = search_all(lucene, queries.texts, k1=k1, b=b, depth=depth, rm3=expand)
        return run_table(*hits, scored_by=stage)

    def _open_lucene(self, stage: str) -> "LuceneSearcher":
        """The index of a stage, opened once."""
        from raypipe.stages.bm25 import open_index

        if stage not in self._lucene:
            folder = Path(self._held.end.enter_context(TemporaryDirectory())) / "index"
            index = self._held.stored(of_stage(stage))
            self._lucene[stage] = open_index(index, folder)
            self._held.end.callback(self._lucene[stage].close)
        return self._lucene[stage]


@dataclass(frozen=True)
class OpenedStores:
    """A generation whose stores stay until `end` is closed, or what a workspace refers to."""

    stores: Storage
    generation: Generation
    recipe: Recipe
    """That of the last invocation in the workspace."""
    end: ExitStack = field(default_factory=ExitStack)

    @property
    def title(self) -> str:
        """The generation in messages, or the workspace if it has none."""
        if not self.generation.number:
            return f"the workspace of {self.generation.name}"
        return f"generation {self.generation.number} of {self.generation.name}"

    @property
    def passages(self) -> Stored:
        """The collection."""
        return self.stored(of_collection(Role.PASSAGES))

    def has(self, name: StoreName) -> bool:
        """Whether the generation names such a store."""
        return str(name) in self.generation.stores

    def stored(self, name: StoreName) -> Stored:
        """One of its stores.

        Raises:
            IncompleteError: it has none of this name, or the store was deleted.
        """
        store = self.generation.stored(self.stores, str(name))
        if store is None:
            raise IncompleteError(
                f"{self.title}: its store {name} was deleted; open another generation, or run its "
                "recipe again"
            )
        return store

    def stages(self) -> list[str]:
        """The recipe's stages of which the generation has a store."""
        sets = [None, *self.recipe.queries]
        return [
            name
            for name in self.recipe.stages
            if any(self.has(of_stage(name, query_set)) for query_set in sets)
        ]

    def indexes(self) -> list[str]:
        """The stages that made a Lucene index or embeddings, by name, in the order of `stages`."""
        kinds = (LuceneIndex, ImpactIndex, Encode, Truncate)
        return [name for name in self.stages() if isinstance(self.recipe.stages[name], kinds)]

    def searches(self) -> list[str]:
        """The recipe's searches whose index is one of `indexes`."""
        made, indexes = self.recipe.stages.items(), self.indexes()
        kinds = (Bm25Search, DenseSearch)
        return [name for name, s in made if isinstance(s, kinds) and s.index in indexes]

    def run(self, stage: str, query_set: str) -> pa.Table:
        """A run with its ids and true scores, schema.RUN_FILE.

        Raises:
            IncompleteError: a store of it was deleted.
        """
        queries = self.stored(of_queries(query_set)).table(schema.QUERIES)
        of_documents = units_of(self.recipe.stages)[stage] == "documents"
        ranked = self.stored(of_collection(Role.DOCUMENTS if of_documents else Role.PASSAGES))
        run = self.stored(of_stage(stage, query_set)).whole_table(schema.RUN)
        return with_ids(run, queries, ranked)


def inline_by_default(recipe: Recipe) -> Recipe:
    """The recipe, set to run in this process without Ray unless it names a backend."""
    resources = recipe.resources
    if "backend" in resources.model_fields_set:
        return recipe
    inline = resources.model_copy(update={"backend": "inline"})
    return recipe.model_copy(update={"resources": inline})


def load(
    recipe: Recipe | str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
) -> Recipe:
    """The checked recipe; see `run`.

    Raises:
        InputError: every problem found, each with file, line, dotted key and remedy.
    """
    if isinstance(recipe, Recipe):
        if overrides:
            raise InputError("overrides: the recipe is loaded already; give them where it is read")
        return recipe
    texts = [] if overrides is None else _texts_of(overrides)
    if isinstance(recipe, Mapping):
        keys = json.loads(json.dumps(dict(recipe), default=_plain))
        return load_recipe(keys, overrides=texts, env=os.environ)
    return named_recipe(str(recipe), overrides=texts, env=os.environ)


def _texts_of(overrides: Mapping[str, Any]) -> list[str]:
    """The overrides as on the command line.

    Raises:
        InputError: they are no dictionary.
    """
    if not isinstance(overrides, Mapping):
        raise InputError(
            "overrides: expected a dictionary such as {'stages.bm25.depth': 100}; "
            f"found {overrides!r}"
        )
    return [f"{key}={_value(value)}" for key, value in overrides.items()]


def _value(value: Any) -> str:
    """The value as JSON, which is also YAML; paths become texts, tuples lists."""
    return json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """A number of numpy as Python's, a mapping as a dictionary, anything else as text."""
    if hasattr(value, "item"):
        return value.item()
    return dict(value) if isinstance(value, Mapping) else str(value)


def _watching(progress: bool) -> "AbstractContextManager[Watcher]":
    """A watcher with a line for each stage on stderr, or one that tells nobody."""
    from raypipe.driver.execute import Watcher

    if not progress:
        return nullcontext(Watcher())
    from raypipe.driver.progress import TerminalWatcher

    return TerminalWatcher(sys.stderr)
