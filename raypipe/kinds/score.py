"""Rerankers: a run -> scores@RUN.SET -> RUN.SET (monoBERT) or pairs (duoBERT).

The scores take pieces@RUN.SET, unless the word pieces of the whole collection exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from raypipe.config.fields import OWN, Count, Name, NotNegative, Seed, Source
from raypipe.config.yaml import Problem
from raypipe.errors import InputError
from raypipe.kinds.kind import Around, Kind, Produces, Reference, candidates_of
from raypipe.kinds.read import GivenRun
from raypipe.kinds.search import Bm25Search
from raypipe.names import Role, of_stage, tokens_of
from raypipe.vocabulary import K0, K1, ScoreScale, Tail

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Chain, Graph, System
    from raypipe.models.folder.model_folder import ModelFolder
    from raypipe.ranking.blend import Blend
    from raypipe.stages.scoring.candidates import RunCandidates, Scored
    from raypipe.storage.spec import StageSpec
    from raypipe.storage.store import Stored


_K0 = Source("Nogueira et al. 2019: 1,000 candidates", value=K0)


_K1 = Source("Nogueira et al. 2019: 50 candidates", value=K1, default=False)


PAIRS = "score with k1"
"""The name, in messages, of a score stage whose output is pairs."""


class Score(Kind):
    """Scores the first candidates of a run: a monoBERT model makes a run, a duoBERT model pairs."""

    labels: ClassVar = {"score": "run", PAIRS: "pairs"}
    references: ClassVar = (Reference(("model",), "model"), Reference(("run",), "run"))

    do: Literal["score"]
    run: Name
    """An earlier run stage."""
    model: Name
    k0: Annotated[Count | None, _K0] = None
    """Candidates per query for a monoBERT model; the output is a run."""
    k1: Annotated[Count | None, _K1] = None
    """Candidates per query whose ordered pairs a duoBERT model scores; the output is pairs. For
    such a model, `raypipe score` takes 50 if it gets none."""
    sample: Count | None = None
    """Number of a duoBERT model's pairs to draw for each candidate, without replacement."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """The seed of the draw."""
    score: ScoreScale | None = None
    """The scale of a monoBERT model's scores; None means that of the model's settings."""
    blend: NotNegative | None = None
    """The weight a of the run's own order in a monoBERT model's ranking: it is by a z + f, where z
    is the run's score, min-max over a query's first k0, and f the model's log odds. None means that
    of the model's settings, 0 none."""
    tail: Annotated[Tail, Source(OWN)] = "keep"
    """Whether candidates below k0 are kept below the others, in their order."""

    @classmethod
    def label(cls, written: Mapping[str, Any]) -> str:
        """The label of this stage: scores of pairs have a label of their own."""
        return "score" if written.get("k1") is None else PAIRS

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that k0, k1 and each option are given for the right kind of model."""
        key = ("stages", name)
        if self.k0 is not None and self.k1 is not None:
            yield Problem((*key, "k1"), "found k0 (of monoBERT) and k1 (of duoBERT); remove one")
        if self.k1 is None and self.sample is not None:
            yield Problem((*key, "sample"), "for a duoBERT model only; give k1, or remove it")
        if self.sample is None and self.seed:
            text = "for a draw of a duoBERT model's pairs; give sample, or remove it"
            yield Problem((*key, "seed"), text)
        if self.k1 is not None and self.tail != "keep":
            text = f"pairs have none; write it in the aggregate stage of {name}"
            yield Problem((*key, "tail"), text)
        if self.k1 is not None and self.score is not None:
            yield Problem((*key, "score"), "a duoBERT model's is always the probability; remove it")
        if self.k1 is not None and self.blend is not None:
            yield Problem((*key, "blend"), "for a monoBERT model only; remove it")
        if self.k1 == 1:
            yield Problem((*key, "k1"), "one candidate makes no pair; expected 2 or more")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """The stage of a monoBERT or of a duoBERT model."""
        given = vars(self)
        if self.k1 is None:
            mono = {name: given[name] for name in MonoScore.model_fields}
            return MonoScore.model_validate(mono | {"k0": K0 if self.k0 is None else self.k0})
        return DuoScore.model_validate({name: given[name] for name in DuoScore.model_fields})


class Rerank(Kind):
    """Scores by a reranker, as resolved."""

    references: ClassVar = (Reference(("run",), "run"),)

    do: Literal["score"]
    run: Name
    model: Name

    @property
    def scores_with(self) -> str | None:
        """The model."""
        return self.model

    def check(self, graph: Graph, name: str) -> None:
        """Refuse a model that is not of the stage's kind of reranker; see Kind."""
        self.model_folder(graph, name)

    def model_folder(self, graph: Graph, name: str) -> ModelFolder:
        """The stage's model, with the score that the stage wants.

        Raises:
            InputError: the stage is for the other kind of reranker.
        """
        from raypipe.driver.models import check_kind

        model = graph.model(self.model)
        check_kind(model, name, self)
        return model


class MonoScore(Rerank):
    """Reorders a run's first k0 candidates by a monoBERT model's scores."""

    labels: ClassVar[Mapping[str, Produces]] = {"score": "run"}

    k0: Annotated[Count, _K0]
    seed: Annotated[Seed, Source(OWN)] = 0
    """No effect on the scores: 0."""
    score: ScoreScale | None = None
    blend: NotNegative | None = None
    tail: Annotated[Tail, Source(OWN)] = "keep"

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """A run, from the scores of a run's first k0 candidates.

        Raises:
            InputError: see `model_folder`.
        """
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.models.folder.model_folder import starting_weights
        from raypipe.stages.scoring.candidates import Request, RunCandidates
        from raypipe.stages.scoring.rerank import rerank_stage

        before, model = inputs[self.run], self.model_folder(graph, name)
        run, request = before.stored, Request(k0=self.k0, seed=self.seed)
        base, scores, chain = scored(graph, name, query_set, model, RunCandidates(run, request))
        blend = None if before.unordered else self.blended(graph, model, name)
        with_blend = "" if blend is None else f", blend {blend.weight:g}"
        own, over_bm25 = model.reranker.blend, model.reranker.blend_over_bm25
        given, note = isinstance(graph.recipe.stages[self.run], GivenRun), ""
        if before.unordered and self.blend is None and own:
            note = f"{name}: no blend, since {self.run} has no order of its own"
        elif given and self.blend is None and over_bm25 not in (None, own):
            note = f"{name}: blend {own:g}, of {self.model}'s settings; if {self.run} is of BM25 "
            note += f"alone, set blend to {over_bm25:g}"
        sides = graph.sides(query_set)
        final = rerank_stage(name, run, base, request, self.tail, sides, scores, blend)
        store = of_stage(name, query_set)
        return System(
            name,
            "run",
            graph.stores.ensure(store, final),
            before.chain.then(chain, Chain((store,))),
            f"{self.run}, first {self.k0}{with_blend}",
            self.model,
            starting_weights(graph.model(self.model)),
            ranked=run,
            first=self.k0,
            note=note,
        )

    def model_folder(self, graph: Graph, name: str) -> ModelFolder:
        """The stage's model, in the scale that the stage names."""
        model = super().model_folder(graph, name)
        if self.score is None:
            return model
        return replace(model, conventions=replace(model.reranker, score=self.score))

    def blended(self, graph: Graph, model: ModelFolder, name: str) -> Blend | None:
        """The stage's blend, or its model's for such a run; None for the model's scores alone.

        Args:
            graph: that of the recipe.
            model: that of `model_folder`.
            name: the stage's.

        Raises:
            InputError: the log odds of the blend cannot be had from the scores.
        """
        from raypipe.stages.scoring.rerank import blend_of

        over_bm25 = isinstance(graph.recipe.stages[self.run], Bm25Search)
        try:
            return blend_of(model.reranker, self.blend, over_bm25=over_bm25)
        except InputError as error:
            raise InputError([f"stages.{name}: {problem}" for problem in error.problems]) from error

    def needs_order(self, name: str, run: str, num_candidates: int) -> list[str]:
        """Problems of candidates that are cut or blended; see Kind."""
        lists = candidates_of(name, run)
        problems = too_many(lists, num_candidates, "k0", self.k0)
        return problems + ([f"{lists} to blend with; write blend: 0"] if self.blend else [])


class DuoScore(Rerank):
    """Scores every ordered pair of a run's first k1 candidates, or a draw of the pairs."""

    labels: ClassVar[Mapping[str, Produces]] = {PAIRS: "pairs"}

    k1: Annotated[Count, _K1]
    sample: Count | None = None
    seed: Annotated[Seed, Source(OWN)] = 0
    tail: Annotated[Tail, Source(OWN)] = "keep"
    """No effect on the pairs; kept as written."""

    def make(self, graph: Graph, name: str, query_set: str, inputs: Mapping[str, System]) -> System:
        """Pairs of a run's first k1 candidates, and their scores.

        Raises:
            InputError: see `model_folder`.
        """
        from raypipe.driver.recipe.graph import Chain, System
        from raypipe.models.folder.model_folder import starting_weights
        from raypipe.stages.scoring.candidates import Request, RunCandidates
        from raypipe.stages.scoring.rerank import pairs_stage

        before, model = inputs[self.run], self.model_folder(graph, name)
        run = before.stored
        request = Request(k1=self.k1, sample=self.sample, seed=self.seed)
        base, scores, chain = scored(graph, name, query_set, model, RunCandidates(run, request))
        final = pairs_stage(name, run, base, request, graph.sides(query_set), scores)
        store = of_stage(name, query_set)
        return System(
            name,
            "pairs",
            graph.stores.ensure(store, final),
            before.chain.then(chain, Chain((store,))),
            f"{self.run}, first {self.k1}",
            self.model,
            starting_weights(graph.model(self.model)),
            ranked=run,
            first=self.k1,
        )

    def needs_order(self, name: str, run: str, num_candidates: int) -> list[str]:
        """Problems of candidates that are cut; see Kind."""
        return too_many(candidates_of(name, run), num_candidates, "k1", self.k1)


def too_many(lists: str, num_candidates: int, key: str, k: int) -> list[str]:
    """A problem if the first `k` of candidates without an order would be scored alone."""
    if k >= num_candidates:
        return []
    return [
        f"{lists}, up to {num_candidates:,} for a query, of which {key} {k:,} would take the first "
        f"of the file; write {key}: {num_candidates} or more (--{key} of raypipe score), or give "
        "the file a column rank or score"
    ]


def scored(
    graph: Graph, name: str, query_set: str, model: ModelFolder, candidates: RunCandidates
) -> tuple[StageSpec, Scored, Chain]:
    """One score for each candidate: the base of it, the scores, and what they took and asked for.

    Scores that an older store has for the same texts are copied, whatever asked for them.

    Args:
        graph: of the recipe.
        name: of the stage.
        query_set: of the candidates.
        model: with the score that the stage wants.
        candidates: to score.
    """
    from raypipe.driver.recipe.graph import Chain, ScoreRequest
    from raypipe.stages.scoring.candidates import Scored
    from raypipe.stages.scoring.score import ScoreStage, score_base
    from raypipe.stages.scoring.token_rows import PassageTokensStage

    sides, store = graph.sides(query_set), of_stage(name, query_set, Role.SCORES)
    base, whole = score_base(model, sides.collection, sides.queries), _whole_tokens(graph, model)
    tokens, names = whole, [store]
    if tokens is None:
        names = [of_stage(name, query_set, Role.PIECES), store]
        pieces = PassageTokensStage(graph.collection(), candidates, model)
        tokens = graph.stores.ensure(names[0], pieces)
    scoring = ScoreStage(
        base,
        candidates,
        model,
        tokens,
        whole is not None,
        sides,
        graph.ids(),
        graph.budget_tokens,
        graph.needs,
    )
    run, request = candidates.run, candidates.request
    score_request = ScoreRequest(base.fingerprint(), request, run.identity, run)
    scores = Scored(candidates, graph.stores.ensure(store, scoring))
    return base, scores, Chain((*names,), (score_request,))


def _whole_tokens(graph: Graph, model: ModelFolder) -> Stored | None:
    """Word pieces of the whole collection, if they exist for a model with this tokenizer."""
    from raypipe import schema
    from raypipe.stages.tokenize import TokenizeStage

    prefix = model.prefix("passage")
    stage = TokenizeStage(graph.collection(), schema.PASSAGES, model, prefix)
    stores = (graph.stores.find(tokens_of(name), stage.spec) for name in graph.recipe.models)
    return next((stored for stored in stores if stored is not None), None)
