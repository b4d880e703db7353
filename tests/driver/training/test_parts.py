"""What a training asks of pipelines, collection by collection."""

from types import SimpleNamespace

import pytest
from training_body import recipe

from raypipe.config import load_training
from raypipe.driver.training.parts import model_name, parts_recipe, runs_of
from raypipe.driver.training.sets import stretches_stage


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


def test_a_set_of_documents_reads_runs_of_documents_and_scores_the_relevant_ones(tmp_path):
    pages = {"format": "msmarco-doc-v2", "input": "/c/docs.jsonl", "split": {}}
    documents = {"passages": 7, "best": 2, "scored_by": "first"}
    own = {"collection": "pages", "queries": "/c/q.tsv", "qrels": "/c/d.txt"}
    train = {"p": {**own, "negatives": {"runs": ["/c/d.trec"]}, "documents": documents}}
    dev = {"p": {**own, "run": "/c/dev.trec", "k": 9, "documents": {}}}
    first = {"name": "first"}
    second = {"name": "second", "train": train, "dev": dev}
    given = recipe(collections={"pages": pages}, phases=[first, second]).phases[1].training
    found = parts_recipe(given, "pages", scorers={"first": tmp_path / "m"}, relevant=tmp_path)
    for name in ("train-p", "dev-p"):
        queries = found.queries[name]
        assert (queries.qrels, queries.document_qrels, queries.only_judged) == (
            None, "/c/d.txt", True
        )  # fmt: skip
    stages = {name: stage.model_dump(exclude_none=True) for name, stage in found.stages.items()}
    assert {name for name, stage in stages.items() if stage.get("of") == "documents"} == {
        "train-p-run-0", "train-p-relevant", "dev-p-run"
    }  # fmt: skip
    assert stages["train-p-relevant"]["runs"] == {"train-p": str(tmp_path / "p.trec")}
    assert stages["train-p-passages"]["at_most"] == 7
    assert (
        stages["train-p-scored"]["model"] == "of-first" and stages["train-p-scored"]["k0"] > 10**6
    )
    assert stages["dev-p-passages"]["documents"] == 9 and "at_most" not in stages["dev-p-passages"]
    assert found.models["of-first"].path == str(tmp_path / "m")


@pytest.mark.parametrize("next_sentence, limit, least", [(True, 45, 2), (False, 46, 1)])
def test_a_stretch_fits_an_input_and_two_sentences_take_two_pieces(next_sentence, limit, least):
    masked = load_training(
        {
            **{"format": 1, "name": "pre", "steps": 90_000, "batch": 4},
            "model": {"start": "/m", "preset": "bert", "total_limit": 48, "query_limit": None},
            "collections": {"docs": {"format": "msmarco-v1", "input": "/c/docs.tsv"}},
            "train": {"docs": {"collection": "docs"}},
            "loss": {"name": "masked-language-model"},
            "masking": {"next_sentence": next_sentence},
        },
        source="pre",
    )
    stage = stretches_stage(masked, "docs", SimpleNamespace(tokens=lambda name: None))
    assert (stage.limit, stage.least) == (limit, least)
