from training_body import recipe

from raypipe.driver.training.parts import model_name, parts_recipe, runs_of


def test_a_collections_part_of_a_training_is_a_recipe_of_its_own():
    found = parts_recipe(recipe(), "docs")
    assert found.collection.input == ("/c/docs.tsv",)
    assert {name: (q.file, q.qrels, q.only_judged) for name, q in found.queries.items()} == {
        "train-a": ("/c/q.tsv", "/c/qrels.txt", True), "dev-d": ("/c/d.tsv", "/c/d.txt", True),
    }  # fmt: skip
    runs = {name: stage.runs for name, stage in found.stages.items() if stage.do == "read"}
    assert runs == {
        "train-a-run-0": {"train-a": "/c/1.trec"}, "train-a-run-1": {"train-a": "/c/2.trec"},
        "train-a-teacher": {"train-a": "/c/t.trec"}, "dev-d-run": {"dev-d": "/c/d.trec"},
    }  # fmt: skip
    assert {name: model.path for name, model in found.models.items()} == {"start": "/m/start"}
    other = parts_recipe(recipe(), "more")
    assert {name: (q.file, q.qrels, q.only_judged) for name, q in other.queries.items()} == {
        "train-b": ("/c/q.tsv", None, False)
    }
    assert other.stages == {}
    assert list(runs_of(recipe().train["a"])) == ["/c/1.trec", "/c/2.trec"]
    assert list(runs_of(recipe().train["b"])) == []
    assert model_name(recipe(model={"start": "minilm"})) == "minilm"
    assert model_name(recipe()) == "start"
