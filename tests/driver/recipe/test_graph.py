import pytest

from raypipe.driver.recipe.graph import Graph, Runs


def test_a_recipes_model_has_its_third_row_and_is_resolved_once(invocable):
    _, recipe = invocable
    graph = Graph(recipe, ensure=None)
    found = graph.model("mono")
    assert found.reranker.segment_row == "zero" and graph.model("mono") is found
    assert Graph(recipe, ensure=None, models={"tiny": found}).model("tiny") is found


def test_stores_are_asked_for_once(invocable):
    _, recipe = invocable
    asked = []

    class Stopped(Exception):
        """Raised at the first store that a graph asks for."""

    def ensure(name, stage):
        asked.append(str(name))
        raise Stopped

    graph = Graph(recipe, ensure)
    for ask, first in (
        (graph.ids, "count@collection"),
        (lambda: graph.queries("dev"), "queries@dev"),
        (lambda: graph.index("vectors"), "count@collection"),
        (lambda: graph.run("dense", "dev", Runs()), "count@collection"),
        (lambda: graph.tokens("tiny", "all"), "queries@all"),
    ):
        with pytest.raises(Stopped):
            ask()
        assert asked.pop() == first and asked == []
