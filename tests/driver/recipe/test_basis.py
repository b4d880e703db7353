from types import SimpleNamespace

from raypipe.names import of_queries


def test_a_recipes_model_has_its_third_row_and_is_resolved_once(invocable):
    _, recipe = invocable
    basis = Basis(recipe, stores=None)
    found = basis.model("mono")
    assert found.reranker.segment_row == "zero" and basis.model("mono") is found
    assert Basis(recipe, stores=None, models={"tiny": found}).model("tiny") is found


def test_a_stage_is_made_and_asked_for_once(invocable):
    _, recipe = invocable
    asked, made = [], []

    def ensure(name, stage):
        asked.append((name, stage))
        return f"stored {stage}"

    basis = Basis(recipe, SimpleNamespace(ensure=ensure, fixed=lambda name: None))
    for _ in range(2):
        for name in (of_queries("dev"), of_queries("all")):
            found = basis.once(name, lambda name=name: made.append(name) or len(made))
            assert found == {"dev": "stored 1", "all": "stored 2"}[name.owner]
    assert made == [of_queries("dev"), of_queries("all")]
    assert asked == [(of_queries("dev"), 1), (of_queries("all"), 2)]
