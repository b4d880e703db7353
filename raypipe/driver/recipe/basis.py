"""Inputs of a recipe's stages: the collection, query sets, word pieces and models.

count@collection -> passages@collection -> ids@collection; hashes@collection
queries@SET
tokens@MODEL; tokens@MODEL.SET
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from raypipe import schema
from raypipe.config import Recipe
from raypipe.data.formats.registry import get_format
from raypipe.data.known import check_known_collection, has_dense_ids
from raypipe.data.qrels import read_qrels
from raypipe.driver.recipe.stores import Stores
from raypipe.errors import InputError
from raypipe.models.folder.loading import resolve_model
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import Role, StoreName, of_collection, of_queries, tokens_of
from raypipe.stages.query_blocks import Sides
from raypipe.stages.reuse.hashes import HashesStage
from raypipe.stages.stage import Needs, Stage
from raypipe.stages.texts.ids import IdsStage
from raypipe.stages.texts.prepare import ConvertStage, CountStage, counted
from raypipe.stages.texts.queries import QueriesStage
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.stored import Stored

log = logging.getLogger(__name__)


@dataclass
class Basis:
    """A recipe's stores, each completed when it is first requested."""

    recipe: Recipe
    stores: Stores
    needs: Needs = Needs()
    budget_tokens: int | None = None
    models: Mapping[str, ModelFolder] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    """URIs of inputs by the paths of their copies, for nodes that do not share the workspace."""
    _known: dict[StoreName, Stored] = field(default_factory=dict)

    def once(
        self,
        name: StoreName,
        stage: Callable[[], Stage],
        fits: Callable[[Stored], bool] = lambda fixed: True,
    ) -> Stored:
        """The finished store of a stage; further calls return the same one.

        `fits` says whether a generation's store of this name is what the recipe means by it.
        """
        if name not in self._known:
            fixed = self.stores.fixed(name)
            if fixed is None or not fits(fixed):
                fixed = self.stores.ensure(name, stage())
            self._known[name] = fixed
        return self._known[name]

    def collection(self) -> Stored:
        """The passages, after counting, converting and checking their ids."""
        rows = of_collection(Role.PASSAGES)
        if rows not in self._known:
            self._known[rows] = self._fixed() or self._prepare()
        return self._known[rows]

    def ids(self) -> Stored:
        """The id index of the collection."""
        self.collection()
        return self._known[of_collection(Role.IDS)]

    def hashes(self) -> Stored:
        """The hashes of the collection's texts, by which rows are found again."""
        name = of_collection(Role.HASHES)
        return self.once(name, lambda: HashesStage(self.collection()))

    def queries(self, name: str) -> Stored:
        """A query set."""

        def stage() -> Stage:
            queries = self.recipe.queries[name]
            assert queries.file is not None  # true of built-in sets too: they are files by now
            only = None
            if queries.only_judged and queries.qrels is not None:
                only = frozenset(read_qrels(Path(queries.qrels))["query_id"].to_pylist())
            return QueriesStage(Path(queries.file), only, self.sources)

        return self.once(of_queries(name), stage)

    def sides(self, query_set: str) -> Sides:
        """The two sides of a query set's rankings: the queries and the collection."""
        return Sides(self.queries(query_set), self.collection())

    def model(self, name: str) -> ModelFolder:
        """A model of the recipe, with its hash."""
        if name not in self.models:
            wanted = self.recipe.models[name]
            found = resolve_model(wanted.path, wanted.preset, segment_row=wanted.segment_row)
            self.models = {**self.models, name: found}
        return self.models[name]

    def tokens(self, model_name: str, query_set: str | None = None) -> Stored:
        """Word pieces of the collection, or of a query set."""
        model = self.model(model_name)
        if query_set is None:
            texts, table, side = self.collection(), schema.PASSAGES, "passage"
        else:
            texts, table, side = self.queries(query_set), schema.QUERIES, "query"
        prefix = model.conventions.prefix(side)

        def stage() -> Stage:
            hashes = self.hashes() if query_set is None else None
            return TokenizeStage(texts, table, model, prefix, hashes)

        def fits(fixed: Stored) -> bool:
            return fixed.spec.reuse_key == TokenizeStage(texts, table, model, prefix).spec.reuse_key

        return self.once(tokens_of(model_name, query_set), stage, fits)

    def _fixed(self) -> Stored | None:
        """The passages of a generation, with its ids."""
        ids = of_collection(Role.IDS)
        passages, index = (self.stores.fixed(n) for n in (of_collection(Role.PASSAGES), ids))
        if passages is not None and index is not None:
            self._known[ids] = index
            return passages
        return None

    def _prepare(self) -> Stored:
        collection = self.recipe.collection
        files = get_format(collection.format).files([Path(p) for p in collection.input])
        count = CountStage(files, collection.format, self.sources)
        facts = counted(self.stores.ensure(of_collection(Role.COUNT), count))
        for warning in check_known_collection(facts):
            log.warning("%s", warning)
        if not sum(f.num_records for f in facts):
            raise InputError(f"{', '.join(map(str, files))}: expected passages, found no record")
        convert = ConvertStage(
            files, facts, collection.format, collection.errors, sources=self.sources
        )
        stored = self.stores.ensure(of_collection(Role.PASSAGES), convert)
        ids = of_collection(Role.IDS)
        self._known[ids] = self.stores.ensure(ids, IdsStage(stored, has_dense_ids(facts)))
        return stored
