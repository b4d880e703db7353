"""Runs made of other runs: of their documents, of their passages, or fused."""

from collections.abc import Mapping

from raypipe.config.stages import DocumentRun, Fuse, MonoScore, PassageRun
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.rerank import blend_of, model_of
from raypipe.driver.recipe.system import Chain, System
from raypipe.errors import InputError
from raypipe.names import of_stage
from raypipe.stages.documents.rank import Conversion, documents_run_stage, passages_run_stage
from raypipe.stages.fuse import fuse_stage


def documents(
    basis: Basis, name: str, stage: DocumentRun, query_set: str, inputs: Mapping[str, System]
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


def conversion_of(basis: Basis, name: str, stage: DocumentRun) -> Conversion:
    """What becomes of the passages' scores first; scores of anything but a reranker stay.

    Raises:
        InputError: what is asked for cannot be had from the reranker's scores.
    """
    scored = basis.recipe.stages[stage.run]
    if not isinstance(scored, MonoScore):
        return "none"
    model = model_of(basis, stage.run, scored)
    conventions, scale = model.reranker, model.reranker.score
    if blend_of(basis, model, stage.run, scored) is not None:
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


def passages(
    basis: Basis, name: str, stage: PassageRun, query_set: str, inputs: Mapping[str, System]
) -> System:
    """All passages of a run's first documents."""
    before = inputs[stage.run]
    made = passages_run_stage(
        name,
        before.stored,
        basis.passage_map(),
        basis.sides(query_set),
        stage.documents,
        stage.at_most,
        basis.excluded(query_set),
    )
    store = of_stage(name, query_set)
    stored = basis.stores.ensure(store, made)
    chain = before.chain.then(Chain((store,)))
    what = f"{stage.run}, first {stage.documents}"
    return System(name, "run", stored, chain, what, before.model, before.start_weights)


def fused(
    basis: Basis, name: str, stage: Fuse, query_set: str, inputs: Mapping[str, System]
) -> System:
    """The runs of a query set, fused into one; or its only run, cut."""
    unit = inputs[stage.runs[0]].unit
    fuse = fuse_stage(
        name,
        {run: inputs[run].stored for run in stage.runs},
        basis.sides(query_set, unit),
        stage.method,
        stage.depth,
        stage.weights,
        stage.k,
    )
    store = of_stage(name, query_set)
    stored = basis.stores.ensure(store, fuse)
    chain = Chain().then(*(inputs[run].chain for run in stage.runs), Chain((store,)))
    how = stage.method or f"first {stage.depth:,}"
    return System(name, "run", stored, chain, " + ".join(stage.runs), how, unit=unit)
