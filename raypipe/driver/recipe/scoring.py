"""Score and aggregate stages of a recipe as the stores they stand for.

tokens@MODEL.SET; of part N: candidates@MODEL.SET.N -> pieces@MODEL.SET.N (unless the word
pieces of the whole collection stand) -> scores@MODEL.SET.N; all parts -> STAGE.SET
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from raypipe import schema
from raypipe.config import Aggregate, Recipe, Score
from raypipe.driver.recipe.chain import Chain
from raypipe.errors import InputError
from raypipe.models.folder.loading import ModelFolder
from raypipe.names import Role, StoreName, of_stage, scoring_of, tokens_of
from raypipe.stages.scoring.candidates import CandidatesStage, Part, Request, candidates_spec
from raypipe.stages.scoring.rerank import AggregateStage, PairsStage, RerankStage
from raypipe.stages.scoring.score import ScoreStage, score_base
from raypipe.stages.scoring.token_rows import PassageTokensStage
from raypipe.stages.stage import Needs, Stage
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.spec import StageSpec
from raypipe.storage.store_records import read_manifest
from raypipe.storage.stored import Stored, committed


class Sources(Protocol):
    """What scoring needs of a recipe's graph."""

    recipe: Recipe
    needs: Needs
    budget_tokens: int | None
    compares_only: bool

    @property
    def ensure(self) -> Callable[[StoreName, Stage], Stored]:
        """Brings a store to completion."""

    def collection(self) -> Stored:
        """Passages."""

    def queries(self, name: str) -> Stored:
        """A query set."""

    def model(self, name: str) -> ModelFolder:
        """A model of the recipe."""

    def tokens(self, model_name: str, query_set: str | None = None) -> Stored:
        """Word pieces of a query set, or of the whole collection."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A stage's store, and the stores whose time is its time."""

    stored: Stored
    chain: Chain


def score(graph: Sources, name: str, query_set: str, run: Stored) -> Scored:
    """A score stage's run (k0) or pairs (k1).

    Raises:
        InputError: the model is of the other kind.
    """
    stage = graph.recipe.stages[name]
    assert isinstance(stage, Score)
    model = _model(graph, name, stage)
    base = score_base(model, graph.collection(), graph.queries(query_set))
    request = Request(k0=stage.k0, k1=stage.k1, sample=stage.sample, seed=stage.seed)
    num_queries = graph.queries(query_set).num_rows
    final: RerankStage | PairsStage
    if stage.k1 is None:
        final = RerankStage(name, run, base, request, stage.tail, num_queries)
    else:
        final = PairsStage(name, run, base, request, num_queries)
    store = of_stage(name, query_set)
    if graph.compares_only:
        return Scored(graph.ensure(store, final), Chain())
    table = Table(graph, stage.model, query_set, model, base)
    stands = read_manifest(run.storage, str(store), final.spec.fingerprint()) is not None
    parts, chain = table.parts(request, run, stands=stands)
    stored = graph.ensure(store, replace(final, parts=parts))
    return Scored(stored, chain.then(Chain((store,))))


def aggregate(
    graph: Sources, name: str, query_set: str, run: Stored, pairs: Stored, tail: str
) -> Stored:
    """An aggregate stage's run."""
    stage = graph.recipe.stages[name]
    assert isinstance(stage, Aggregate)
    request = Request(k1=stage.k1, sample=stage.m, seed=stage.seed)
    num_queries = graph.queries(query_set).num_rows
    final = AggregateStage(name, run, pairs, request, stage.method, tail, num_queries)
    return graph.ensure(of_stage(name, query_set), final)


@dataclass(frozen=True)
class Table:
    """The growing table of one model's scores of one query set."""

    graph: Sources
    model_name: str
    query_set: str
    model: ModelFolder
    base: StageSpec

    def parts(
        self, request: Request, run: Stored, *, stands: bool
    ) -> tuple[tuple[Part, ...], Chain]:
        """Every part once the request's own is complete, and the stores that it took.

        With `stands` nothing is computed: the selection is stored, only the stores are named.
        """
        asked = request.digest(run)
        before: list[Part] = []
        while True:
            number = len(before) + 1
            store = self._store(Role.CANDIDATES, number)
            spec = candidates_spec(self.base, number)
            manifest = read_manifest(run.storage, str(store), spec.fingerprint())
            if manifest is None and stands:
                return tuple(before), Chain(held=True)
            if manifest is None or manifest.records[0].facts["request"] == asked:
                planned = CandidatesStage(self.base, number, run, request, tuple(before))
                part = Part(self.graph.ensure(store, planned), None)
                if part.candidates.manifest.records[0].facts["request"] == asked:
                    return self._complete(number, part, before)
            else:
                part = Part(Stored(run.storage, manifest), None)
            before.append(replace(part, scores=self._committed(number, part)))

    def _store(self, role: Role, number: int) -> StoreName:
        return scoring_of(role, self.model_name, self.query_set, number)

    def _complete(
        self, number: int, part: Part, before: list[Part]
    ) -> tuple[tuple[Part, ...], Chain]:
        query_tokens = self.graph.tokens(self.model_name, self.query_set)
        whole = self._whole_tokens()
        store = self._store(Role.PIECES, number)
        if whole is None:
            stage = PassageTokensStage(self.graph.collection(), part, self.model)
            tokens = self.graph.ensure(store, stage)
        else:
            tokens = whole
        scoring = self._stage(part, query_tokens, tokens, whole is not None)
        scores = self._store(Role.SCORES, number)
        done = replace(part, scores=self.graph.ensure(scores, scoring))
        paid = part.num_rows == part.candidates.manifest.records[0].facts["wanted"]
        stores = [tokens_of(self.model_name, self.query_set)]
        stores += [self._store(Role.CANDIDATES, number)]
        stores += [store] if whole is None else []
        return (*before, done), Chain((*stores, scores), held=not paid)

    def _stage(
        self, part: Part, query_tokens: Stored, passage_tokens: Stored, whole: bool
    ) -> ScoreStage:
        return ScoreStage(
            self.base,
            part,
            self.model,
            query_tokens,
            passage_tokens,
            whole,
            self.graph.budget_tokens,
            self.graph.needs,
        )

    def _committed(self, number: int, part: Part) -> Stored | None:
        spec = self._stage(part, part.candidates, part.candidates, False).spec
        store = self._store(Role.SCORES, number)
        return committed(part.candidates.storage, str(store), spec)

    def _whole_tokens(self) -> Stored | None:
        """Word pieces of the whole collection, where they stand for a model with this tokenizer."""
        prefix = self.model.conventions.prefix("passage")
        stage = TokenizeStage(self.graph.collection(), schema.PASSAGES, self.model, prefix)
        storage = self.graph.collection().storage
        for name in self.graph.recipe.models:
            store = str(tokens_of(name))
            manifest = read_manifest(storage, store, stage.spec.fingerprint())
            if manifest is not None:
                return Stored(storage, manifest)
        return None


def _model(graph: Sources, name: str, stage: Score) -> ModelFolder:
    model = graph.model(stage.model)
    conventions = model.reranker
    wanted = "mono" if stage.k1 is None else "duo"
    if conventions.kind != wanted:
        remedy = "give k1 (and no k0)" if conventions.kind == "duo" else "give k0 (and no k1)"
        raise InputError(
            f"stages.{name}: {stage.model} is a {conventions.kind} model, and the stage is that of "
            f"a {wanted} model; {remedy}"
        )
    if stage.score is None:
        return model
    return replace(model, conventions=replace(conventions, score=stage.score))
