from raypipe.driver.recipe.sources import Sources


def test_a_recipes_model_has_its_third_row_and_is_resolved_once(invocable):
    _, recipe = invocable
    sources = Sources(recipe, stores=None)
    found = sources.model("mono")
    assert found.reranker.segment_row == "zero" and sources.model("mono") is found
    assert Sources(recipe, stores=None, models={"tiny": found}).model("tiny") is found
