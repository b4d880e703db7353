"""A recipe's stores and systems, each completed when it is first asked for.

passages@collection, ids@collection and others, see `collection`
queries@SET
tokens@MODEL; tokens@MODEL.SET
those of the stages: see `raypipe.kinds`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from raypipe import schema
from raypipe.config.recipe import Recipe
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.driver.devices import Devices
from raypipe.driver.models import opened
from raypipe.driver.recipe.collection import counted_collection
from raypipe.errors import InputError
from raypipe.kinds.kind import Produces
from raypipe.kinds.registry import Index
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import Role, StoreName, of_collection, of_queries, tokens_of
from raypipe.stages.excluded import NOTHING, Documents, Excluded, excluded_stage
from raypipe.stages.ids import ids_stage
from raypipe.stages.prepare import QueriesStage
from raypipe.stages.stage import Needs, Stage
from raypipe.stages.tables import Sides
from raypipe.stages.tokenize import TokenizeStage
from raypipe.storage.store import Stored
from raypipe.vocabulary import Unit, units

if TYPE_CHECKING:
    from raypipe.driver.recipe.stores import Stores
    from raypipe.stages.ann.recall import Recall
    from raypipe.stages.scoring.candidates import Request


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """Candidates of a run that a reranker is asked to score, whoever scored them."""

    table: str
    """The fingerprint of what a score depends on: model, collection and queries."""
    request: Request
    run_identity: str
    run: Stored = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Chain:
    """Stores that depend on the queries, each once, in the order in which they are made."""

    stores: tuple[StoreName, ...] = ()
    asked: tuple[ScoreRequest, ...] = ()
    """Each once, the last one last."""

    def then(self, *others: Chain) -> Chain:
        """This chain's stores, then the others' stores that are not among them."""
        chains = (self, *others)
        return Chain(
            tuple(dict.fromkeys(store for chain in chains for store in chain.stores)),
            tuple(dict.fromkeys(asked for chain in chains for asked in chain.asked)),
        )


@dataclass(frozen=True, slots=True)
class System:
    """A stage's finished store and its description."""

    name: str
    produces: Produces
    stored: Stored
    chain: Chain = Chain()
    """The stores that depend on the queries; their times add up to the system's time."""
    reranks: str = ""
    """What the system searched or reordered, in words."""
    model: str = ""
    start_weights: str = ""
    """What the model's weights were trained on; see `starting_weights`."""
    unit: Unit = "passages"
    """What a run ranks."""
    ranked: Stored | None = None
    """The run whose candidates were scored."""
    first: int = 0
    """Of its candidates, how many of each query the stage asks for."""
    pairs: Stored | None = None
    """The pairs that were aggregated."""
    recall: Recall | None = None
    """Of an approximate search, against exact search."""
    approximate: tuple[str, ...] = ()
    """What every table says below it of each approximate search that the system goes back to."""
    unordered: int = 0
    """The most candidates of a query, if the run is a file without ranks and scores."""
    note: str = ""
    """What every table with the system says below it."""


@dataclass
class Graph:
    """A recipe's stores and systems, each completed when it is first asked for."""

    recipe: Recipe
    stores: Stores
    needs: Needs = Needs()
    budget_tokens: int | None = None
    models: Mapping[str, ModelFolder] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    """URIs of inputs by the paths of their copies, for nodes that do not share the workspace."""
    _stored: dict[StoreName, Stored] = field(default_factory=dict)
    _systems: dict[tuple[str, str | None], System] = field(default_factory=dict)
    _excluding: set[str] = field(default_factory=set)
    """The query sets whose excluded passages the stage that is being made asked for."""

    def store(
        self,
        name: StoreName,
        stage: Callable[[], Stage],
        fits: Callable[[Stored], bool] = lambda fixed: True,
    ) -> Stored:
        """The finished store that several systems read; its stage is made and completed once.

        A generation that is read may have it, if `fits` says that it is what the recipe means. What
        one system alone makes for a query set, `stores.ensure` completes.
        """
        if name not in self._stored:
            fixed = self.stores.fixed(name)
            if fixed is None or not fits(fixed):
                fixed = self.stores.ensure(name, stage())
            self._stored[name] = fixed
        return self._stored[name]

    def store_of(self, name: StoreName, stage: Stage) -> Stored:
        """The finished store of a stage; a generation's only if it is of the same specification."""
        own = stage.spec.fingerprint()
        return self.store(name, lambda: stage, lambda fixed: fixed.manifest.fingerprint == own)

    def systems(self, selected: Sequence[str]) -> dict[str, list[System]]:
        """The selected stages, run to completion in recipe order, by query set."""
        stages = {name: self.recipe.stages[name] for name in selected}
        systems: dict[str, list[System]] = {
            name: [] for name, queries in self.recipe.queries.items() if queries.report
        }
        for name, stage in stages.items():
            stage.check(self, name)
        self.collection()
        for name, stage in stages.items():
            if stage.produces == "index":
                self.system(name, None)
                continue
            for query_set, of_set in systems.items():
                of_set.append(self.system(name, query_set))
        return systems

    def system(self, name: str, query_set: str | None) -> System:
        """The system of a stage, after completing what it reads; an index has no query set.

        Raises:
            InputError: a model or file does not fit the stage, which may need an order.
        """
        stage = self.recipe.stages[name]
        key = (name, None if stage.produces == "index" else query_set)
        if key not in self._systems:
            inputs = {other: self.system(other, query_set) for other in stage.inputs}
            problems = [
                problem
                for run, system in inputs.items()
                if system.unordered
                for problem in stage.needs_order(name, run, system.unordered)
            ]
            if problems:
                raise InputError(problems)
            if isinstance(stage, Index):
                made = stage.make(self, name, inputs)
            else:
                assert query_set is not None  # only an index has none
                self._excluding.clear()
                made = stage.make(self, name, query_set, inputs)
                # A ranking of other rankings has only what these left.
                left_out = any(one.produces != "index" for one in inputs.values())
                left_out |= self.recipe.queries[query_set].exclude is None
                assert left_out or query_set in self._excluding, (
                    f"{stage.do}: asks for no graph.excluded(query_set), and would rank those too"
                )
            lines = [line for one in (*inputs.values(), made) for line in one.approximate]
            self._systems[key] = replace(made, approximate=tuple(dict.fromkeys(lines)))
        return self._systems[key]

    def collection(self) -> Stored:
        """The passages, after counting, converting or splitting, and checking their ids."""
        return self._made(Role.PASSAGES)

    def ids(self) -> Stored:
        """The id index of the collection, and the hashes by which its texts are found again."""
        return self._made(Role.IDS)

    def documents(self) -> Stored:
        """The documents of a collection with `split`."""
        return self._made(Role.DOCUMENTS)

    def passage_map(self) -> Stored:
        """The map between its passages and its documents."""
        return self._made(Role.MAP)

    def document_ids(self) -> Stored:
        """The id index of the documents."""
        name = of_collection(Role.DOCUMENT_IDS)
        return self.store(name, lambda: ids_stage(self.documents()))

    def queries(self, name: str) -> Stored:
        """A query set."""

        def stage() -> Stage:
            queries = self.recipe.queries[name]
            assert queries.file is not None  # true of built-in sets too: they are files by now
            only = None
            if queries.only_judged:
                files = [Path(qrels) for unit in units() if (qrels := queries.qrels_of(unit))]
                judged = [read_qrels(file)["query_id"].to_pylist() for file in files]
                only = frozenset(query for ids in judged for query in ids)
            return QueriesStage(Path(queries.file), only, self.sources)

        return self.store(of_queries(name), stage)

    def excluded(self, name: str, unit: Unit = "passages") -> Excluded:
        """The passages, or documents, without a place in a query set's rankings."""
        self._excluding.add(name)
        exclude = self.recipe.queries[name].exclude
        if exclude is None:
            return NOTHING
        queries, documents = self.queries(name), None
        if unit == "documents":
            role, ranked, ids = Role.EXCLUDED_DOCUMENTS, self.documents(), self.document_ids()
        else:
            role, ranked, ids = Role.EXCLUDED, self.collection(), self.ids()
            if self.recipe.collection.split is not None:
                documents = Documents(self.documents(), self.document_ids(), self.passage_map())
        stage = excluded_stage(exclude, queries, ranked, ids, documents)
        return Excluded(self.store(of_queries(name, role), lambda: stage))

    def unjudged(self, name: str) -> frozenset[str]:
        """The ids of the queries that a query set of `only_judged` leaves out of its file."""
        queries = self.recipe.queries[name]
        if not queries.only_judged or queries.file is None:
            return frozenset()
        chosen = set(self.queries(name).table(schema.QUERIES)["query_id"].to_pylist())
        return frozenset(query for query, _ in read_queries(Path(queries.file))) - chosen

    def ranked(self, unit: Unit) -> Stored:
        """The store of a run's rows: passages, or documents."""
        return self.collection() if unit == "passages" else self.documents()

    def sides(self, query_set: str, unit: Unit = "passages") -> Sides:
        """The two sides of a query set's rankings: the queries, and passages or documents."""
        return Sides(self.queries(query_set), self.ranked(unit))

    def model(self, name: str) -> ModelFolder:
        """A model of the recipe, with its hash."""
        if name not in self.models:
            model = opened(self.recipe.models[name], self.recipe.resources.precision)
            self.models = {**self.models, name: model}
        return self.models[name]

    def tokens(self, model_name: str, query_set: str | None = None) -> Stored:
        """Word pieces of the collection, or of a query set."""
        model = self.model(model_name)
        if query_set is None:
            texts, table, side = self.collection(), schema.PASSAGES, "passage"
        else:
            texts, table, side = self.queries(query_set), schema.QUERIES, "query"
        prefix = model.prefix(side)

        def stage() -> Stage:
            hashes = self.ids() if query_set is None else None
            return TokenizeStage(texts, table, model, prefix, hashes)

        def fits(fixed: Stored) -> bool:
            return fixed.spec.reuse_key == TokenizeStage(texts, table, model, prefix).spec.reuse_key

        return self.store(tokens_of(model_name, query_set), stage, fits)

    def _made(self, role: Role) -> Stored:
        """One of the collection's stores."""
        name = of_collection(role)
        if name not in self._stored:
            stores = self._fixed()
            if stores is None:
                counted = counted_collection(self.recipe.collection, self.stores, self.sources)
                stores = counted.passages()
            self._stored |= {of_collection(other): stored for other, stored in stores.items()}
        return self._stored[name]

    def _fixed(self) -> dict[Role, Stored] | None:
        """The collection's stores in a generation, if it has them all."""
        roles = [Role.PASSAGES, Role.IDS]
        if self.recipe.collection.split is not None:
            roles += [Role.DOCUMENTS, Role.MAP]
        fixed = {role: self.stores.fixed(of_collection(role)) for role in roles}
        complete = {role: stored for role, stored in fixed.items() if stored is not None}
        return complete if len(complete) == len(roles) else None


def graph_at(
    recipe: Recipe,
    stores: Stores,
    chosen: Devices,
    sources: Mapping[str, str],
    models: Mapping[str, ModelFolder] | None = None,
) -> Graph:
    """The recipe's stores, as these devices compute them; the rest is as Graph has it."""
    budget = recipe.resources.budget_tokens
    return Graph(
        recipe,
        stores,
        needs=chosen.needs,
        budget_tokens=budget if isinstance(budget, int) else None,
        models=models or {},
        sources=sources,
    )
