"""A recipe as the stores it stands for, one after the other; implied stages included.

count@collection -> passages@collection -> ids@collection
queries@SET
tokens@MODEL -> EMBEDDINGS; tokens@MODEL.SET -> EMBEDDINGS.SET (the queries' side)
INDEX (Lucene), tune@RUN
parts@RUN.SET -> RUN.SET; for score and aggregate stages see scoring.py
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from raypipe import schema
from raypipe.config import Aggregate, Bm25, Encode, Fuse, Index, Read, Recipe, Score, Search
from raypipe.data.formats.registry import get_format
from raypipe.data.known import check_known_collection, has_dense_ids
from raypipe.data.qrels import read_qrels
from raypipe.driver.recipe import scoring
from raypipe.driver.recipe.chain import Chain
from raypipe.errors import InputError
from raypipe.models.folder.loading import ModelFolder, resolve_model
from raypipe.names import Role, StoreName, of_collection, of_queries, of_stage, tokens_of
from raypipe.stages.bm25 import Bm25Stage, IndexStage
from raypipe.stages.encode import EncodeStage
from raypipe.stages.fuse import FuseStage
from raypipe.stages.read_run import ReadRunStage
from raypipe.stages.search import MergeStage, PartsStage
from raypipe.stages.stage import Needs, Stage
from raypipe.stages.texts.ids import IdsStage
from raypipe.stages.texts.prepare import ConvertStage, CountStage, counted
from raypipe.stages.texts.queries import QueriesStage
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.stages.tune import TuneStage, chosen
from raypipe.storage.stored import Stored

log = logging.getLogger(__name__)

Ensure = Callable[[StoreName, Stage], Stored]
"""Brings a store to completion; see Execution.ensure."""


@dataclass
class Runs:
    """The runs of one query set, in recipe order, and what a table says of them."""

    stored: dict[str, Stored] = field(default_factory=dict)
    pairs: dict[str, Stored] = field(default_factory=dict)
    """What duo models made, which is no run."""
    chain: dict[str, Chain] = field(default_factory=dict)
    """Stores that depend on the queries, whose time is the system's time."""
    reranks: dict[str, str] = field(default_factory=dict)
    model: dict[str, str] = field(default_factory=dict)


@dataclass
class Graph:
    """Stores of a recipe, each brought to completion when it is first asked for."""

    recipe: Recipe
    ensure: Ensure
    needs: Needs = Needs()
    budget_tokens: int | None = None
    compares_only: bool = False
    """Nothing is computed: `ensure` compares settings with those of an earlier invocation."""
    models: Mapping[str, ModelFolder] = field(default_factory=dict)
    _known: dict[StoreName, Stored] = field(default_factory=dict)

    def collection(self) -> Stored:
        """Passages; counted, converted, their ids checked."""
        rows = of_collection(Role.PASSAGES)
        if rows not in self._known:
            self._known[rows] = self._prepare()
        return self._known[rows]

    def ids(self) -> Stored:
        """The id index of the collection."""
        self.collection()
        return self._known[of_collection(Role.IDS)]

    def queries(self, name: str) -> Stored:
        """A query set."""
        store = of_queries(name)
        if store not in self._known:
            queries = self.recipe.queries[name]
            assert queries.file is not None
            only = None
            if queries.only_judged and queries.qrels is not None:
                only = frozenset(read_qrels(Path(queries.qrels))["query_id"].to_pylist())
            self._known[store] = self.ensure(store, QueriesStage(Path(queries.file), only))
        return self._known[store]

    def index(self, name: str) -> Stored:
        """An `index` or `encode` stage."""
        store = of_stage(name)
        if store not in self._known:
            stage = self.recipe.stages[name]
            if isinstance(stage, Index):
                self._known[store] = self.ensure(store, IndexStage(self.collection()))
            else:
                assert isinstance(stage, Encode)
                self._known[store] = self._encode(store, stage.model, None)
        return self._known[store]

    def run(self, name: str, query_set: str, runs: Runs) -> Stored:
        """A run (of a duo, pairs) of one query set, and in `runs` what a table says of it."""
        stage = self.recipe.stages[name]
        store = of_stage(name, query_set)
        match stage:
            case Search(bm25=Bm25() as bm25):
                stored = self._bm25(store, name, stage, bm25, query_set)
                chain, reranks, model = Chain((store,)), "collection", "BM25"
            case Search():
                stored, chain = self._dense(name, stage, query_set)
                encode = self.recipe.stages[stage.index]
                assert isinstance(encode, Encode)
                reranks, model = "collection", encode.model
            case Fuse():
                stored = self._fuse(store, name, stage, query_set, runs)
                chain = Chain().then(*(runs.chain[run] for run in stage.runs), Chain((store,)))
                reranks = " + ".join(stage.runs)
                model = f"{stage.method}"
            case Score():
                run = self._input(stage.run, query_set, runs)
                scored = scoring.score(self, name, query_set, run)
                stored = scored.stored
                chain = runs.chain[stage.run].then(scored.chain)
                reranks, model = f"{stage.run}, first {stage.k1 or stage.k0}", stage.model
            case Aggregate():
                stored = self._aggregate(name, stage, query_set, runs)
                chain = runs.chain[stage.pairs].then(Chain((store,)))
                reranks, model = runs.reranks[stage.pairs], runs.model[stage.pairs]
            case Read():
                if query_set not in stage.runs:
                    raise InputError(f"stages.{name}.runs: no file for the query set {query_set}")
                file = Path(stage.runs[query_set])
                queries = self.queries(query_set)
                read = ReadRunStage(name, file, self.collection(), self.ids(), queries)
                stored, chain = self.ensure(store, read), Chain()
                reranks, model = "as read", file.name
            case _:
                raise AssertionError(name)
        kept = runs.pairs if isinstance(stage, Score) and stage.k1 is not None else runs.stored
        kept[name], runs.chain[name] = stored, chain
        runs.reranks[name], runs.model[name] = reranks, model
        return stored

    def _prepare(self) -> Stored:
        collection = self.recipe.collection
        files = get_format(collection.format).files([Path(p) for p in collection.input])
        count = CountStage(files, collection.format)
        facts = counted(self.ensure(of_collection(Role.COUNT), count))
        for warning in check_known_collection(facts):
            log.warning("%s", warning)
        if not sum(f.num_records for f in facts):
            raise InputError(f"{', '.join(map(str, files))}: expected passages, found no record")
        convert = ConvertStage(files, facts, collection.format, collection.errors)
        stored = self.ensure(of_collection(Role.PASSAGES), convert)
        ids = of_collection(Role.IDS)
        self._known[ids] = self.ensure(ids, IdsStage(stored, has_dense_ids(facts)))
        return stored

    def model(self, name: str) -> ModelFolder:
        """A model of the recipe, hashed."""
        if name not in self.models:
            wanted = self.recipe.models[name]
            found = resolve_model(wanted.path, wanted.preset, segment_row=wanted.segment_row)
            self.models = {**self.models, name: found}
        return self.models[name]

    def _encode(self, store: StoreName, model_name: str, query_set: str | None) -> Stored:
        side = "passage" if query_set is None else "query"
        tokens, model = self.tokens(model_name, query_set), self.model(model_name)
        encode = EncodeStage(tokens, model, side, self.budget_tokens, self.needs)
        return self.ensure(store, encode)

    def tokens(self, model_name: str, query_set: str | None = None) -> Stored:
        """Word pieces of the collection, or of a query set."""
        model = self.model(model_name)
        if query_set is None:
            texts, table = self.collection(), schema.PASSAGES
            prefix = model.conventions.prefix("passage")
        else:
            texts, table = self.queries(query_set), schema.QUERIES
            prefix = model.conventions.prefix("query")
        store = tokens_of(model_name, query_set)
        if store not in self._known:
            self._known[store] = self.ensure(store, TokenizeStage(texts, table, model, prefix))
        return self._known[store]

    def _dense(self, name: str, stage: Search, query_set: str) -> tuple[Stored, Chain]:
        encode = self.recipe.stages[stage.index]
        assert isinstance(encode, Encode)
        embeddings = self.index(stage.index)
        vectors = of_stage(stage.index, query_set)
        if vectors not in self._known:
            self._known[vectors] = self._encode(vectors, encode.model, query_set)
        parts = PartsStage(name, embeddings, self._known[vectors], stage.depth)
        named, store = of_stage(name, query_set, Role.PARTS), of_stage(name, query_set)
        found = self.ensure(named, parts)
        num_queries = self.queries(query_set).num_rows
        merged = self.ensure(store, MergeStage(name, found, num_queries, stage.depth))
        return merged, Chain((tokens_of(encode.model, query_set), vectors, named, store))

    def _bm25(
        self, store: StoreName, name: str, stage: Search, bm25: Bm25, query_set: str
    ) -> Stored:
        index, queries = self.index(stage.index), self.queries(query_set)
        if bm25.tune is None:
            assert bm25.k1 is not None and bm25.b is not None
            k1, b = bm25.k1, bm25.b
        else:
            k1, b = chosen(self._tune(name, stage, bm25))
        return self.ensure(
            store, Bm25Stage(name, self.collection(), index, queries, k1, b, stage.depth)
        )

    def _tune(self, name: str, stage: Search, bm25: Bm25) -> Stored:
        store = of_stage(name, role=Role.TUNE)
        if store not in self._known:
            tune = bm25.tune
            assert tune is not None
            qrels = self.recipe.queries[tune.queries].qrels
            assert qrels is not None
            grid = TuneStage(
                collection=self.collection(),
                index=self.index(stage.index),
                queries=self.queries(tune.queries),
                qrels=Path(qrels),
                measure=tune.measure,
                k1=tune.k1,
                b=tune.b,
                depth=stage.depth,
            )
            self._known[store] = self.ensure(store, grid)
            k1, b = chosen(self._known[store])
            log.info("%s: tuned on %s, %s: k1=%s b=%s", name, tune.queries, tune.measure, k1, b)
        return self._known[store]

    def _input(self, name: str, query_set: str, runs: Runs) -> Stored:
        """The run or the pairs that a stage reads."""
        if name not in runs.stored and name not in runs.pairs:
            return self.run(name, query_set, runs)
        return runs.stored[name] if name in runs.stored else runs.pairs[name]

    def _aggregate(self, name: str, stage: Aggregate, query_set: str, runs: Runs) -> Stored:
        pairs = self._input(stage.pairs, query_set, runs)
        duo = self.recipe.stages[stage.pairs]
        assert isinstance(duo, Score)
        run = self._input(duo.run, query_set, runs)
        return scoring.aggregate(self, name, query_set, run, pairs, stage.tail)

    def _fuse(self, store: StoreName, name: str, stage: Fuse, query_set: str, runs: Runs) -> Stored:
        inputs = {run: self._input(run, query_set, runs) for run in stage.runs}
        fuse = FuseStage(
            name,
            inputs,
            self.queries(query_set).num_rows,
            stage.method,
            stage.depth,
            stage.weights,
            stage.k if stage.k is not None else 60,
        )
        return self.ensure(store, fuse)
