"""A run of passages -> RUN.SET, a run of documents."""

from collections.abc import Mapping

from raypipe.config.stages import Documents, MonoScore
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.kinds.score import blend_of, model_of
from raypipe.driver.recipe.system import System
from raypipe.errors import InputError
from raypipe.names import of_stage
from raypipe.stages.documents.rank import Conversion, documents_run_stage


def system(
    basis: Basis, name: str, stage: Documents, query_set: str, inputs: Mapping[str, System]
) -> System:
    """The documents of a run's passages, in the order of their aggregated scores.

    Raises:
        InputError: the passages' scores do not have what is aggregated.
    """
    before = inputs[stage.run]
    made = documents_run_stage(
        name,
        before.stored,
        basis.passage_map(),
        basis.sides(query_set, "documents"),
        stage.method,
        stage.k,
        conversion_of(basis, name, stage),
        stage.depth,
    )
    store = of_stage(name, query_set)
    stored = basis.stores.ensure(store, made)
    how = stage.method if stage.k is None else f"{stage.method}, k={stage.k}"
    return System(
        name,
        "run",
        stored,
        before.chain.then(Chain((store,))),
        f"{stage.run}, {how}",
        before.model,
        before.start_weights,
        unit="documents",
    )


def conversion_of(basis: Basis, name: str, stage: Documents) -> Conversion:
    """What becomes of the passages' scores first; scores of anything but a reranker stay.

    Raises:
        InputError: what is asked for cannot be had from the reranker's scores.
    """
    scored = basis.recipe.stages[stage.run]
    if not isinstance(scored, MonoScore):
        return "none"
    model = model_of(basis, stage.run, scored)
    conventions, scale = model.reranker, model.reranker.score
    if blend_of(model, stage.run, scored) is not None:
        return "none" if stage.over == "raw" else "probability"
    if scale == "raw" and conventions.relevant_label is not None:
        raise InputError(
            f"stages.{name}: {stage.run} has the score of the relevant unit of {scored.model}'s "
            "two; expected their difference: remove score, or write score: log-probability"
        )
    if scale == "probability" and stage.over == "raw":
        raise InputError(
            f"stages.{name}: {stage.run} has probabilities, which no longer tell large raw scores "
            f"apart; write stages.{stage.run}.score: log-probability, or over: probability"
        )
    conversions: dict[tuple[str, str], Conversion] = {
        ("log-probability", "raw"): "log-odds",
        ("log-probability", "probability"): "probability-of-log",
        ("raw", "probability"): "probability",
    }
    return conversions.get((scale, stage.over), "none")
