from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from raypipe.driver.recipe import graph as graph_module
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.graph import Graph


def test_stores_are_asked_for_once(invocable):
    _, recipe = invocable
    asked = []

    class Stopped(Exception):
        """Raised at the first store that is asked for."""

    def ensure(name, stage):
        asked.append(str(name))
        raise Stopped

    basis = Basis(recipe, SimpleNamespace(ensure=ensure, fixed=lambda name: None))
    graph = Graph(basis)
    for ask, first in (
        (basis.ids, "count@collection"),
        (lambda: basis.queries("dev"), "queries@dev"),
        (lambda: graph.system("vectors", None), "count@collection"),
        (lambda: graph.system("dense", "dev"), "count@collection"),
        (lambda: basis.tokens("tiny", "all"), "queries@all"),
    ):
        with pytest.raises(Stopped):
            ask()
        assert asked.pop() == first and asked == []


@dataclass(frozen=True)
class Made:
    """As much of a system as a graph reads."""

    inputs: dict
    approximate: tuple[str, ...] = ()


def test_a_system_is_made_once_and_an_index_once_for_all_query_sets(invocable, monkeypatch):
    _, recipe = invocable
    made = []

    def system_of(basis, name, stage, query_set, inputs):
        assert basis.recipe is recipe and stage is recipe.stages[name]
        made.append((name, query_set, list(inputs)))
        return Made(inputs)

    monkeypatch.setattr(graph_module, "system_of", system_of)
    graph = Graph(SimpleNamespace(recipe=recipe))
    dev, everything = graph.system("dense", "dev"), graph.system("dense", "all")
    assert graph.system("dense", "dev") is dev is not everything
    assert dev.inputs["vectors"] is everything.inputs["vectors"] is graph.system("vectors", None)
    assert [(name, inputs) for name, _, inputs in made] == [
        ("vectors", []), ("dense", ["vectors"]), ("dense", ["vectors"]),
    ]  # fmt: skip
    assert [query_set for name, query_set, _ in made if name == "dense"] == ["dev", "all"]
