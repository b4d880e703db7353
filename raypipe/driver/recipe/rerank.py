"""Rerankers: a run -> scores@RUN.SET -> RUN.SET (monoBERT) or pairs (duoBERT) -> RUN.SET.

The scores take pieces@RUN.SET, unless the word pieces of the whole collection exist.
"""

from collections.abc import Mapping
from dataclasses import replace

from raypipe import schema
from raypipe.config.stages import Aggregate, Bm25Search, DuoScore, GivenRun, MonoScore, Stage
from raypipe.driver.models import check_kind
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import Chain, ScoreRequest, System
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder, starting_weights
from raypipe.names import Role, StoreName, of_stage, tokens_of
from raypipe.ranking.blend import Blend
from raypipe.stages.scoring import blend
from raypipe.stages.scoring.candidates import Candidates, Request, RunCandidates
from raypipe.stages.scoring.rerank import aggregate_stage, pairs_stage, rerank_stage
from raypipe.stages.scoring.score import ScoreStage, score_base
from raypipe.stages.scoring.score_table import Scored
from raypipe.stages.scoring.token_rows import PassageTokensStage
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.store import Stored


def scores(
    basis: Basis,
    name: str,
    stage: MonoScore | DuoScore,
    query_set: str,
    inputs: Mapping[str, System],
) -> System:
    """A run (k0) or pairs (k1), from the scores of a run's first candidates.

    Raises:
        InputError: see model_of.
    """
    before, model = inputs[stage.run], model_of(basis, name, stage)
    run, sides = before.stored, basis.sides(query_set)
    base, store = score_base(model, sides.collection, sides.queries), of_stage(name, query_set)
    if isinstance(stage, MonoScore):
        k, request = stage.k0, Request(k0=stage.k0, seed=stage.seed)
    else:
        k, request = stage.k1, Request(k1=stage.k1, sample=stage.sample, seed=stage.seed)
    scores = of_stage(name, query_set, Role.SCORES)
    found, chain = scored(basis, scores, model, RunCandidates(run, request))
    blended = note = ""
    if isinstance(stage, MonoScore):
        blend = None if before.unordered else blend_of(basis, model, name, stage)
        blended = "" if blend is None else f", blend {blend.weight:g}"
        own, over_bm25 = model.reranker.blend, model.reranker.blend_over_bm25
        given = isinstance(basis.recipe.stages[stage.run], GivenRun)
        if before.unordered and stage.blend is None and own:
            note = f"{name}: no blend, since {stage.run} has no order of its own"
        elif given and stage.blend is None and over_bm25 not in (None, own):
            note = f"{name}: blend {own:g}, of {stage.model}'s settings; if {stage.run} is of BM25 "
            note += f"alone, set blend to {over_bm25:g}"
        final = rerank_stage(name, run, base, request, stage.tail, sides, found, blend)
    else:
        final = pairs_stage(name, run, base, request, sides, found)
    asked = ScoreRequest(base.fingerprint(), request, run.identity, run)
    return System(
        name,
        stage.produces,
        basis.stores.ensure(store, final),
        before.chain.then(chain, Chain((store,), asked=(asked,))),
        f"{stage.run}, first {k}{blended}",
        stage.model,
        starting_weights(model),
        ranked=run,
        first=k,
        note=note,
    )


def refuse_unordered(name: str, stage: Stage, inputs: Mapping[str, System]) -> None:
    """Returns nothing if the stage needs no order that its inputs lack.

    Raises:
        InputError: candidates without ranks and scores would be cut, blended, or read as a ranking.
    """
    problems = []
    for run, system in inputs.items():
        lists = f"stages.{name}: {run} has candidates without ranks and scores"
        if not system.unordered:
            continue
        if not isinstance(stage, MonoScore | DuoScore):
            problems.append(f"{lists}, and {stage.do} needs their order; score them first")
            continue
        key, k = ("k0", stage.k0) if isinstance(stage, MonoScore) else ("k1", stage.k1)
        if k < system.unordered:
            problems.append(
                f"{lists}, up to {system.unordered:,} for a query, of which {key} {k:,} would take "
                f"the first of the file; write {key}: {system.unordered} or more (--depth of "
                "raypipe score), or give the file a column rank or score"
            )
        if isinstance(stage, MonoScore) and stage.blend:
            problems.append(f"{lists} to blend with; write blend: 0")
    if problems:
        raise InputError(problems)


def model_of(basis: Basis, name: str, stage: MonoScore | DuoScore) -> ModelFolder:
    """The stage's model, with the score that the stage wants.

    Raises:
        InputError: the stage is for the other kind of reranker.
    """
    model = basis.model(stage.model)
    check_kind(model, name, stage)
    if isinstance(stage, DuoScore) or stage.score is None:
        return model
    return replace(model, conventions=replace(model.reranker, score=stage.score))


def blend_of(basis: Basis, model: ModelFolder, name: str, stage: MonoScore) -> Blend | None:
    """The stage's blend, otherwise its model's for such a run; None for the model's scores alone.

    Args:
        basis: that of the recipe.
        model: that of `model_of`.
        name: the stage's.
        stage: in the recipe.

    Raises:
        InputError: the log odds of the blend cannot be had from the scores.
    """
    try:
        over_bm25 = isinstance(basis.recipe.stages[stage.run], Bm25Search)
        return blend.blend_of(model.reranker, stage.blend, over_bm25=over_bm25)
    except InputError as error:
        raise InputError([f"stages.{name}: {problem}" for problem in error.problems]) from error


def aggregated(
    basis: Basis, name: str, stage: Aggregate, query_set: str, inputs: Mapping[str, System]
) -> System:
    """A run whose first candidates are ordered by their aggregated probabilities."""
    pairs = inputs[stage.pairs]
    assert pairs.ranked is not None and pairs.chain.asked  # as all pairs have
    request = Request(k1=stage.k1, sample=stage.m, seed=stage.seed)
    aggregate = aggregate_stage(
        name,
        pairs.ranked,
        pairs.stored,
        request,
        stage.method,
        stage.tail,
        basis.sides(query_set),
    )
    store = of_stage(name, query_set)
    stored = basis.stores.ensure(store, aggregate)
    *below, of_pairs = pairs.chain.asked
    needed = (*below, replace(of_pairs, request=request))  # it may need fewer than were scored
    chain = replace(pairs.chain, asked=needed).then(Chain((store,)))
    return System(
        name,
        "run",
        stored,
        chain,
        pairs.reranks,
        pairs.model,
        pairs.start_weights,
        ranked=pairs.ranked,
        first=pairs.first,
        pairs=pairs.stored,
    )


def scored(
    basis: Basis,
    store: StoreName,
    model: ModelFolder,
    candidates: Candidates,
) -> tuple[Scored, Chain]:
    """One score for each candidate, and the stores that this took.

    Scores that an older store has for the same texts are copied, whatever asked for them.

    Args:
        basis: of the recipe.
        store: the name of the scores; its owner is the stage.
        model: with the score that the stage wants.
        candidates: of one query set.
    """
    query_set = store.query_set
    assert query_set is not None
    sides, taken = basis.sides(query_set), list[StoreName]()
    whole = _whole_tokens(basis, model)
    passage_tokens = whole
    if passage_tokens is None:
        taken.append(of_stage(store.owner, query_set, Role.PIECES))
        pieces = PassageTokensStage(basis.collection(), candidates, model)
        passage_tokens = basis.stores.ensure(taken[-1], pieces)
    scoring = ScoreStage(
        score_base(model, sides.collection, sides.queries),
        candidates,
        model,
        passage_tokens,
        whole is not None,
        sides,
        basis.ids(),
        basis.budget_tokens,
        basis.needs,
    )
    return Scored(candidates, basis.stores.ensure(store, scoring)), Chain((*taken, store))


def _whole_tokens(basis: Basis, model: ModelFolder) -> Stored | None:
    """Word pieces of the whole collection, if they exist for a model with this tokenizer."""
    prefix = model.conventions.prefix("passage")
    stage = TokenizeStage(basis.collection(), schema.PASSAGES, model, prefix)
    found = (basis.stores.find(tokens_of(name), stage.spec) for name in basis.recipe.models)
    return next((stored for stored in found if stored is not None), None)
