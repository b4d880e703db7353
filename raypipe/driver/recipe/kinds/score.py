"""A run -> RUN.SET (monoBERT) or pairs (duoBERT); `score_table` has the stores in between."""

from collections.abc import Mapping
from dataclasses import replace

from raypipe.config.pipeline.kinds import DuoScore, MonoScore
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.score_table import ScoreTable
from raypipe.driver.recipe.system import System
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder, starting_weights
from raypipe.names import of_stage
from raypipe.stages.scoring.candidates import Request
from raypipe.stages.scoring.rerank import PairsStage, RerankStage
from raypipe.stages.scoring.score import score_base
from raypipe.stages.stage import Stage


def system(
    basis: Basis,
    name: str,
    stage: MonoScore | DuoScore,
    query_set: str,
    inputs: Mapping[str, System],
) -> System:
    """A run (k0) or pairs (k1), from the scores of a run's first candidates.

    Raises:
        InputError: the stage is for the other kind of reranker.
    """
    before, model = inputs[stage.run], _model(basis, name, stage)
    run, sides = before.stored, basis.sides(query_set)
    base = score_base(model, sides.collection, sides.queries)
    final: RerankStage | PairsStage
    if isinstance(stage, MonoScore):
        k, request = stage.k0, Request(k0=stage.k0, seed=stage.seed)
        final = RerankStage(name, run, base, request, stage.tail, sides)
    else:
        k, request = stage.k1, Request(k1=stage.k1, sample=stage.sample, seed=stage.seed)
        final = PairsStage(name, run, base, request, sides)
    table = ScoreTable(basis, stage.model, query_set, model, base)

    def complete(stands: bool) -> tuple[Stage, Chain]:
        parts, chain = table.parts(request, run, stands=stands)
        return replace(final, parts=parts), chain

    store = of_stage(name, query_set)
    stored, chain = basis.stores.select(store, final, complete)
    return System(
        name,
        stage.produces,
        stored,
        before.chain.then(chain, Chain((store,))),
        f"{stage.run}, first {k}",
        stage.model,
        starting_weights(model),
        ranked=run,
    )


def _model(basis: Basis, name: str, stage: MonoScore | DuoScore) -> ModelFolder:
    model = basis.model(stage.model)
    conventions = model.reranker
    wanted = "mono" if isinstance(stage, MonoScore) else "duo"
    if conventions.kind != wanted:
        remedy = "give k1 (and no k0)" if conventions.kind == "duo" else "give k0 (and no k1)"
        raise InputError(
            f"stages.{name}: {stage.model} is of kind {conventions.kind}, and the stage needs a "
            f"model of kind {wanted}; {remedy}"
        )
    if isinstance(stage, DuoScore) or stage.score is None:
        return model
    return replace(model, conventions=replace(conventions, score=stage.score))
