from pathlib import Path

from raypipe.config.load import load_recipe
from raypipe.config.paths import missing_inputs


def test_relative_paths_belong_to_the_base_and_others_stay(text: str, tmp_path: Path):
    text = text.replace("dev.tsv", "s3://bucket/dev.tsv").replace("dev.txt", "/abs/dev.txt")
    text = text.replace("test.txt", "../qrels/./test.txt").replace("path: minilm", "path: ./m/x")
    recipe = load_recipe(text + "stores: stores\n", base=tmp_path / "r")
    assert recipe.collection.input == (str(tmp_path / "r/collection.tsv"),)
    assert recipe.queries["dev"].file == "s3://bucket/dev.tsv"
    assert recipe.queries["dev"].qrels == "/abs/dev.txt"
    assert recipe.queries["test"].qrels == str(tmp_path / "qrels/test.txt")
    assert recipe.models["encoder"].path == str(tmp_path / "r/m/x")
    assert recipe.stores == str(tmp_path / "r/stores")


def test_names_that_are_no_paths_stay(text: str, tmp_path: Path):
    assert load_recipe(text, base=tmp_path).models["encoder"].path == "minilm"
    irds = text.replace("msmarco-v1, input: collection.tsv", "ir-datasets, input: beir/nfcorpus")
    assert load_recipe(irds, base=tmp_path).collection.input == ("beir/nfcorpus",)


def test_every_missing_input_is_told_at_once(text: str, tmp_path: Path):
    (tmp_path / "test.tsv").write_text("1\ta\n")
    (tmp_path / "dev.txt").mkdir()
    text = text.replace("path: minilm", "path: weights")
    text = text.replace("  fused:", "  old: {do: read, runs: {test: old.trec}}\n  fused:")
    assert missing_inputs(load_recipe(text, base=tmp_path)) == [
        f"collection.input.0: {tmp_path}/collection.tsv: no such file or folder; expected passages"
        " in format msmarco-v1",
        f"queries.dev.file: {tmp_path}/dev.tsv: no such file or folder; expected a queries file",
        f"queries.dev.qrels: {tmp_path}/dev.txt: a folder; expected a qrels file",
        f"queries.test.qrels: {tmp_path}/test.txt: no such file or folder; expected a qrels file",
        f"models.encoder.path: {tmp_path}/weights: no such file or folder; expected minilm, "
        "general-mono, minilm-mono, minilm-duo, a folder with weights, or a hub's model as hf://OWNER/NAME",
        f"stages.old.runs.test: {tmp_path}/old.trec: no such file or folder; expected a run file",
    ]


def test_only_local_files_are_looked_for(text: str, tmp_path: Path):
    (tmp_path / "here").write_text("")
    for name in ("dev.tsv", "dev.txt", "test.tsv"):
        text = text.replace(name, "gs://bucket/" + name)
    text = text.replace("test.txt", f"file://{tmp_path}/here")
    text = text.replace("input: collection.tsv", "input: [here, here]")
    assert missing_inputs(load_recipe(text, base=tmp_path)) == []
    gone = text.replace(f"file://{tmp_path}/here", f"file://{tmp_path}/gone")
    assert missing_inputs(load_recipe(gone, base=tmp_path)) == [
        f"queries.test.qrels: {tmp_path}/gone: no such file or folder; expected a qrels file"
    ]
