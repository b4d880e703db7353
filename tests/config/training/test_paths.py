from training_text import RECIPE, load

from raypipe.config.load import load_training
from raypipe.config.paths import missing_inputs


def test_paths_belong_to_the_recipes_folder(tmp_path):
    found = load("stores=stores", "guard.test.queries=/abs/t.tsv", "model.start=./mine/model",
                 "collections.more={format: ir-datasets, input: [nf/corpus]}",
                 "model.adapter={start: an/adapter}", base=tmp_path)  # fmt: skip
    assert found.collections["docs"].input == (str(tmp_path / "passages.tsv"),)
    assert found.train["docs"].negatives.runs == (str(tmp_path / "run.trec"),)
    assert found.dev["docs"].qrels == str(tmp_path / "dqrels.txt")
    assert found.guard["test"].queries == "/abs/t.tsv"
    assert found.model.start == str(tmp_path / "mine" / "model")
    assert found.model.adapter.start == str(tmp_path / "an" / "adapter")
    assert found.collections["more"].input == ("nf/corpus",)
    assert found.stores == str(tmp_path / "stores")
    assert load("stores=s3://b/x").stores == "s3://b/x"
    assert load("stores=file:///a/b").stores == "/a/b"
    assert (
        load("train.docs.queries=irds:beir/nfcorpus").train["docs"].queries == "irds:beir/nfcorpus"
    )
    assert len(found.overrides) == 5
    assert load().model.start == "minilm"


def test_every_input_that_is_not_there_is_told(tmp_path):
    recipe = tmp_path / "r.yaml"
    recipe.write_text(RECIPE)
    found = load_training(recipe, overrides=["stores=gone"])
    missing = missing_inputs(found)
    assert [line.split(":")[0] for line in missing] == [
        "collections.docs.input.0", "train.docs.queries", "train.docs.qrels",
        "train.docs.negatives.runs.0", "dev.docs.queries", "dev.docs.qrels", "dev.docs.run",
        "guard.test.queries",
    ]  # fmt: skip
    for name in ("passages.tsv", "q.tsv", "qrels.txt", "run.trec", "dq.tsv", "dqrels.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "drun.trec").write_text("x")
    (tmp_path / "tq.tsv").write_text("x")
    assert missing_inputs(found) == []
    other = load_training(recipe, overrides=["model.start=gone", "model.adapter={start: gone2}"])
    told = missing_inputs(other)
    assert told[0].startswith("model.start: ") and told[1].startswith("model.adapter.start: ")
    packaged = load_training(recipe, overrides=["model.adapter={start: minilm-mono}"])
    assert missing_inputs(packaged) == []
