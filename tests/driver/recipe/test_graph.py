from types import SimpleNamespace

import pytest

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

    basis = Basis(recipe, SimpleNamespace(ensure=ensure))
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
