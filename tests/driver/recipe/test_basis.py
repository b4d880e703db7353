from raypipe.driver.recipe.basis import Basis


def test_a_recipes_model_has_its_third_row_and_is_resolved_once(invocable):
    _, recipe = invocable
    basis = Basis(recipe, stores=None)
    found = basis.model("mono")
    assert found.reranker.segment_row == "zero" and basis.model("mono") is found
    assert Basis(recipe, stores=None, models={"tiny": found}).model("tiny") is found
