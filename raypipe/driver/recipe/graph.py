"""A recipe as its stores, one after the other, including implied stages.

`basis` makes the stores that are not stages; `system_of` makes those of each kind of stage.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from raypipe.config.stages import (
    Aggregate,
    Ann,
    AnnSearch,
    Bm25Search,
    DenseSearch,
    DocumentRun,
    DuoScore,
    Encode,
    Fuse,
    GivenRun,
    ImpactIndex,
    LuceneIndex,
    MonoScore,
    PassageRun,
    Stage,
)
from raypipe.driver.recipe import first_stages, rerank, runs
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import System


def system_of(
    basis: Basis,
    name: str,
    stage: Stage,
    query_set: str | None,
    inputs: Mapping[str, System],
) -> System:
    """The completed system of a stage; `inputs` are the systems that it reads, by name."""
    match stage:
        case LuceneIndex():
            return first_stages.lucene_index(basis, name, stage)
        case ImpactIndex():
            return first_stages.impact_index(basis, name, stage, inputs)
        case Encode():
            return first_stages.embeddings(basis, name, stage)
        case Ann():
            return first_stages.ann_index(basis, name, stage, inputs)
    assert query_set is not None  # only an index has none
    match stage:
        case GivenRun():
            return first_stages.given_run(basis, name, stage, query_set)
        case Bm25Search():
            return first_stages.bm25_search(basis, name, stage, query_set, inputs)
        case DenseSearch():
            return first_stages.dense_search(basis, name, stage, query_set, inputs)
        case AnnSearch():
            return first_stages.ann_search(basis, name, stage, query_set, inputs)
        case DocumentRun():
            return runs.documents(basis, name, stage, query_set, inputs)
        case PassageRun():
            return runs.passages(basis, name, stage, query_set, inputs)
        case Fuse():
            return runs.fused(basis, name, stage, query_set, inputs)
        case MonoScore() | DuoScore():
            return rerank.scores(basis, name, stage, query_set, inputs)
        case Aggregate():
            return rerank.aggregated(basis, name, stage, query_set, inputs)
        case _:
            assert_never(stage)


@dataclass
class Graph:
    """The systems of a recipe, each completed when it is first requested."""

    basis: Basis
    _known: dict[tuple[str, str | None], System] = field(default_factory=dict)

    def system(self, name: str, query_set: str | None) -> System:
        """The system of a stage, after completing what it reads; an index has no query set.

        Raises:
            InputError: a model or file does not fit the stage, which may need an order.
        """
        stage = self.basis.recipe.stages[name]
        key = (name, None if stage.produces == "index" else query_set)
        if key not in self._known:
            inputs = {other: self.system(other, query_set) for other in stage.inputs}
            rerank.refuse_unordered(name, stage, inputs)
            made = system_of(self.basis, name, stage, query_set, inputs)
            told = [line for one in (*inputs.values(), made) for line in one.approximate]
            self._known[key] = replace(made, approximate=tuple(dict.fromkeys(told)))
        return self._known[key]


def systems_of(basis: Basis, selected: list[str]) -> dict[str, list[System]]:
    """The selected stages, run to completion in recipe order, by query set."""
    graph, recipe = Graph(basis), basis.recipe
    systems: dict[str, list[System]] = {
        name: [] for name, queries in recipe.queries.items() if queries.report
    }
    for name in selected:  # before any work
        stage = recipe.stages[name]
        if isinstance(stage, MonoScore | DuoScore):
            rerank.model_of(basis, name, stage)
        elif isinstance(stage, DocumentRun):
            runs.conversion_of(basis, name, stage)
    basis.collection()
    for name in selected:
        if recipe.stages[name].produces == "index":
            graph.system(name, None)
            continue
        for query_set, of_set in systems.items():
            of_set.append(graph.system(name, query_set))
    return systems
