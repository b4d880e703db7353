"""STAGE.SET -> audit@STAGE.SET, for each stage whose model computed in less than fp32."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raypipe.config.stages import Aggregate, AnnSearch, DenseSearch, DuoScore, MonoScore
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.kinds.score import model_of
from raypipe.driver.recipe.system import System
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import Role, of_stage
from raypipe.stages.audit.sample import Limits, Scored
from raypipe.stages.audit.stage import AuditStage
from raypipe.storage.store import Stored

FIRST = 30
"""Passages of a search of embeddings whose vectors are computed again, for each query. Of
bf16's first 100, fp32's first ten were among the first 11 (docs/benchmarks.md)."""


@dataclass(frozen=True, slots=True)
class Audited:
    """A stage whose scores come from a model in less than fp32."""

    system: System
    precision: str
    stage: AuditStage
    """That of its model's scores; an aggregation's is that of its pairs."""
    again: Stored | None
    """The scores in fp32, schema.SCORES; None if they were not computed."""
    scored: Scored
    """The stage's own lines, or pairs."""
    aggregate: Aggregate | None = None
    """How the pairs were aggregated."""
    why: str = ""
    """Why they were not computed."""


def audited(
    basis: Basis, systems: Mapping[str, Sequence[System]], selected: Sequence[str]
) -> dict[str, list[Audited]]:
    """The stages of each query set that lower the precision, with their scores in fp32 computed.

    The stages' inputs are as they are, so what a stage changes is told apart from what the stages
    before it changed. Only `selected` stages' scores are computed.
    """
    found = {
        query_set: [_audited(basis, query_set, system, selected) for system in of_set]
        for query_set, of_set in systems.items()
    }
    return {name: [one for one in of_set if one is not None] for name, of_set in found.items()}


def _audited(
    basis: Basis, query_set: str, system: System, selected: Sequence[str]
) -> Audited | None:
    name, stage = system.name, basis.recipe.stages[system.name]
    match stage:
        case DenseSearch() | AnnSearch():
            own = Scored(system.stored, name, first=FIRST)
            return _computed(basis, query_set, system, basis.model(system.model), own, selected)
        case MonoScore():
            own = Scored(system.stored, name, first=stage.k0)
            model = model_of(basis, name, stage)
            return _computed(basis, query_set, system, model, own, selected)
        case DuoScore():
            own = Scored(system.stored, name, pairs=True)
            model = model_of(basis, name, stage)
            return _computed(basis, query_set, system, model, own, selected)
        case Aggregate():
            duo = basis.recipe.stages[stage.pairs]
            assert isinstance(duo, DuoScore) and system.pairs is not None
            pairs = Scored(system.pairs, stage.pairs, pairs=True)
            model, own = model_of(basis, stage.pairs, duo), Scored(system.stored, name)
            return _computed(basis, query_set, system, model, pairs, selected, (own, stage))
        case _:
            return None


def _computed(
    basis: Basis,
    query_set: str,
    system: System,
    model: ModelFolder,
    scored: Scored,
    selected: Sequence[str],
    aggregated: tuple[Scored, Aggregate] | None = None,
) -> Audited | None:
    """The stage's scores in fp32; those of another stage that is not selected only if stored."""
    if model.precision == "fp32":
        return None
    wanted = basis.recipe.resources
    limits = Limits(wanted.audit_queries, wanted.audit_inputs)
    sides = basis.sides(query_set)
    stage = AuditStage(scored, model.in_fp32(), sides, limits, basis.budget_tokens, basis.needs)
    store = of_stage(scored.by, query_set, Role.AUDIT)
    again, why = None, "resources.audit_queries is 0"
    if limits.queries and scored.by in selected:
        again = basis.stores.ensure(store, stage)
    elif limits.queries:
        again = basis.stores.find(store, stage.spec)
        why = f"{scored.by} is not a part of this invocation"
    own, aggregate = aggregated or (scored, None)
    return Audited(system, model.precision, stage, again, own, aggregate, why)
