"""The order in which a recipe's stages are completed, or foreseen."""

from raypipe.config.stages import Documents, DuoScore, MonoScore
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.graph import Graph
from raypipe.driver.recipe.kinds.documents import conversion_of
from raypipe.driver.recipe.kinds.score import model_of
from raypipe.driver.recipe.system import System


def systems_of(basis: Basis, selected: list[str]) -> dict[str, list[System]]:
    """The selected stages, run to completion in recipe order, by query set."""
    graph, recipe = Graph(basis), basis.recipe
    systems: dict[str, list[System]] = {
        name: [] for name, queries in recipe.queries.items() if queries.report
    }
    for name in selected:  # before any work
        stage = recipe.stages[name]
        if isinstance(stage, MonoScore | DuoScore):
            model_of(basis, name, stage)
        elif isinstance(stage, Documents):
            conversion_of(basis, name, stage)
    basis.collection()
    for name in selected:
        if recipe.stages[name].produces == "index":
            graph.system(name, None)
            continue
        for query_set, of_set in systems.items():
            of_set.append(graph.system(name, query_set))
    return systems
