"""A run -> scores@RUN.SET -> RUN.SET (monoBERT) or pairs (duoBERT)."""

from collections.abc import Mapping
from dataclasses import replace

from raypipe.config.stages import DuoScore, MonoScore
from raypipe.driver.models import check_kind
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Asked, Chain
from raypipe.driver.recipe.score_table import scored
from raypipe.driver.recipe.system import System
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder, starting_weights
from raypipe.names import Role, of_stage
from raypipe.ranking.blend import Blend
from raypipe.stages.scoring import blending
from raypipe.stages.scoring.candidates import Request, RunCandidates
from raypipe.stages.scoring.rerank import pairs_stage, rerank_stage
from raypipe.stages.scoring.score import score_base


def system(
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
    blended = ""
    if isinstance(stage, MonoScore):
        blend = blend_of(model, name, stage)
        blended = "" if blend is None else f", blend {blend.weight:g}"
        final = rerank_stage(name, run, base, request, stage.tail, sides, found, blend)
    else:
        final = pairs_stage(name, run, base, request, sides, found)
    asked = Asked(base.fingerprint(), request, run.identity, run)
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
    )


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


def blend_of(model: ModelFolder, name: str, stage: MonoScore) -> Blend | None:
    """The stage's blend, otherwise that of its model; None for the model's scores alone.

    Args:
        model: that of `model_of`.
        name: the stage's.
        stage: in the recipe.

    Raises:
        InputError: the log odds of the blend cannot be had from the scores.
    """
    try:
        return blending.blend_of(model.reranker, stage.blend)
    except InputError as error:
        raise InputError([f"stages.{name}: {problem}" for problem in error.problems]) from error
