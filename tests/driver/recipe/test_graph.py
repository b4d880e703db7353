from types import SimpleNamespace

import pytest

from raypipe.driver.recipe.graph import Graph
from raypipe.driver.recipe.sources import Sources


def test_stores_are_asked_for_once(invocable):
    _, recipe = invocable
    asked = []

    class Stopped(Exception):
        """Raised at the first store that is asked for."""

    def ensure(name, stage):
        asked.append(str(name))
        raise Stopped

    sources = Sources(recipe, SimpleNamespace(ensure=ensure))
    graph = Graph(sources)
    for ask, first in (
        (sources.ids, "count@collection"),
        (lambda: sources.queries("dev"), "queries@dev"),
        (lambda: graph.system("vectors", None), "count@collection"),
        (lambda: graph.system("dense", "dev"), "count@collection"),
        (lambda: sources.tokens("tiny", "all"), "queries@all"),
    ):
        with pytest.raises(Stopped):
            ask()
        assert asked.pop() == first and asked == []
