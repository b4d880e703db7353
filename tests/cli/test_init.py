"""`raypipe init`: a recipe for a user's files, which runs as it is."""

import json
import re
import shutil

import pytest
import yaml

from raypipe.cli.main import run
from raypipe.config.load import load_recipe, recipe_text

PASSAGES = "a\tread a csv file\nb\tunpack zip archives\nc\tlog messages of a program\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "passages.tsv").write_text(PASSAGES)
    (tmp_path / "queries.tsv").write_text("q1\tzip archive\nq2\tcsv\n")
    (tmp_path / "qrels.txt").write_text("q1 0 b 1\nq2 0 a 1\n")
    return tmp_path


FILES = ("passages.tsv", "queries.tsv", "qrels.txt")


@pytest.mark.jvm
@pytest.mark.slow
def test_the_recipe_runs_as_it_is_with_every_kind_of_model(
    here, tiny_model, tiny_mono, tiny_duo, capsys, inline
):
    models = [f"--models={folder}" for folder in (tiny_duo, tiny_model, tiny_mono)]
    assert run(["init", *FILES, *models])[0] == 0
    printed = capsys.readouterr()
    text = (here / "my-recipe.yaml").read_text()
    assert printed.out == text and len(text.splitlines()) <= 25
    assert "2 queries, 2 judgements" in text and "raypipe pipeline my-recipe.yaml" in printed.err
    assert run(["pipeline", "my-recipe.yaml", "--out", "work"])[0] == 0
    assert (here / "work" / "table.md").read_text().count("| bm25 ") >= 1
    stages = yaml.safe_load(text)["stages"]
    produced = {(stage["do"], "k0" in stage, "k1" in stage) for stage in stages.values()}
    assert {("score", True, False), ("score", False, True)} <= produced
    runs = {file.stem for file in (here / "work" / "runs" / "queries").iterdir()}
    assert {"bm25", "fused"} < runs and any(name.endswith("-sum") for name in runs)


@pytest.mark.jvm
@pytest.mark.slow
def test_the_reranker_in_comments_runs_once_they_are_lines(here, tiny_mono, tiny_duo, inline):
    """The hub's name is replaced here; tests/driver/models/test_hub.py fetches it."""
    assert run(["init", *FILES])[0] == 0
    text = (here / "my-recipe.yaml").read_text()
    (here / "my-recipe.yaml").write_text(with_reranker(text))
    (here / "duo").symlink_to(tiny_duo)
    command = ["pipeline", "my-recipe.yaml", "--out", "work", f"models.mono.path={tiny_mono}"]
    assert run(command)[0] == 0
    runs = {file.stem for file in (here / "work" / "runs" / "queries").iterdir()}
    assert runs == {"bm25", "minilm", "fused", "mono", "duo-sum"}


def test_each_kind_of_model_has_its_stages(here, tiny_model, tiny_mono, tiny_duo):
    names = {"e": tiny_model, "m": tiny_mono, "d": tiny_duo}
    for name, folder in names.items():
        (here / name).symlink_to(folder)
    models = [f"--models={here / name}" for name in names]
    assert run(["init", *FILES, *models])[0] == 0
    stages = yaml.safe_load((here / "my-recipe.yaml").read_text())["stages"]
    assert list(stages) == ["lucene", "bm25", "e-vectors", "e", "fused", "m", "d", "d-sum"]
    assert stages["m"]["run"] == "fused" and stages["m"]["model"] == "m"
    assert stages["d"] == {"do": "score", "run": "m", "model": "d", "k1": 10}
    assert stages["d-sum"] == {"do": "aggregate", "pairs": "d", "method": "sum"}


@pytest.mark.parametrize("name", ["general-mono", "12", "null", "1.5", "2020-01-01", "True", "1_0"])
def test_a_folder_of_any_name_is_itself(here, tiny_mono, name):
    (here / name).symlink_to(tiny_mono)
    (here / "queries.tsv").rename(here / f"{name}-queries")
    assert run(["init", FILES[0], f"{name}-queries", FILES[2], f"--models=./{name}"])[0] == 0
    recipe = load_recipe((here / "my-recipe.yaml").read_text(), base=here)
    (model,) = recipe.models.values()
    assert model.path == str(here / name)
    assert recipe.queries["queries"].file == str(here / f"{name}-queries")


def test_models_whose_stages_would_have_one_name_get_numbers(here, tiny_model, tiny_duo):
    for name, folder in {"x": tiny_model, "x-vectors": tiny_model, "x-sum": tiny_duo}.items():
        (here / name).symlink_to(folder)
    models = [f"--models={here / name}" for name in ("x", "x-vectors", "x-sum")]
    assert run(["init", *FILES, *models])[0] == 0
    recipe = load_recipe((here / "my-recipe.yaml").read_text(), base=here)
    assert list(recipe.models) == ["x", "x-vectors-2", "x-sum-2"]


def with_reranker(text):
    """A recipe whose lines in comments are lines."""
    return re.sub(r"^  # ([\w-]+: \{)", r"  \1", text, flags=re.MULTILINE)


@pytest.mark.parametrize("edit", [str, with_reranker])
def test_the_stages_are_those_of_the_recipe_english(here, edit):
    assert run(["init", *FILES])[0] == 0
    written, english = (
        yaml.safe_load(edit(text))
        for text in ((here / "my-recipe.yaml").read_text(), recipe_text("english"))
    )
    assert ("duo-sum" in written["stages"]) == ("duo" in written["models"]) == (edit is not str)
    names = {"embeddings": "minilm-vectors", "dense": "minilm"}

    def renamed(value):
        if isinstance(value, dict):
            return {names.get(key, key): renamed(each) for key, each in value.items()}
        if isinstance(value, list):
            return list(map(renamed, value))
        return names.get(value, value)

    assert (written["models"], written["stages"]) == (english["models"], renamed(english["stages"]))


DOCUMENT = {
    "docid": "d1",
    "url": "u",
    "title": "zip",
    "headings": "",
    "body": "unpack zip archives",
}


def test_documents_have_stages_that_rank_them_by_bm25s_and_the_last_runs_best_passages(here):
    (here / "docs.jsonl").write_text(json.dumps(DOCUMENT) + "\n")
    (here / "judged.txt").write_text("q1 0 d1 1\n")
    for models, last in ((["--models=minilm"], "fused"), (["--models=general-mono"], None)):
        assert run(["init", "docs.jsonl", "queries.tsv", "judged.txt", *models])[0] == 0
        text = (here / "my-recipe.yaml").read_text()
        (here / "my-recipe.yaml").unlink()
        written, last = yaml.safe_load(text), last or "general-mono"
        made = {name: each for name, each in written["stages"].items() if each["do"] == "documents"}
        assert made == {
            f"{name}-documents": {"do": "documents", "run": name, "method": "maxp"}
            for name in ("bm25", last)
        }
        assert [*written["stages"]][-2:] == [*made]
        edited = yaml.safe_load(with_reranker(text))["stages"]
        added = ["mono-documents", "duo-sum-documents"] if last == "fused" else []
        assert [*edited][-2 - len(added) :] == [*made, *added]
        assert all(edited[name]["run"] == name.removesuffix("-documents") for name in added)
        assert written["evaluate"]["baseline"] == "bm25-documents"
        assert written["queries"]["queries"]["document_qrels"] == "judged.txt"


@pytest.mark.jvm
@pytest.mark.slow
def test_documents_are_split_and_ranked_by_their_best_passages(here, tiny_model, inline):
    (here / "docs.jsonl").write_text(json.dumps(DOCUMENT) + "\n")
    (here / "judged.txt").write_text("q1 0 d1 1\n")
    words = ("docs.jsonl", "queries.tsv", "judged.txt", f"--models={tiny_model}")
    assert run(["init", *words])[0] == 0
    recipe = load_recipe(here / "my-recipe.yaml")
    assert (recipe.collection.format, recipe.queries["queries"].qrels) == ("msmarco-doc-v2", None)
    assert run(["pipeline", "my-recipe.yaml", "--out", "work"])[0] == 0
    (row,) = (here / "work" / "runs" / "queries" / "fused-documents.trec").read_text().splitlines()
    assert row.split()[:4] == ["q1", "Q0", "d1", "1"]
    assert "| bm25-documents " in (here / "work" / "table.md").read_text()


def test_models_of_one_name_or_of_a_stages_name_are_told_apart(here, tiny_model):
    for folder in ("a/bm25", "b/bm25"):
        shutil.copytree(tiny_model, here / folder)
    assert run(["init", *FILES, "--models=a/bm25", "--models=b/bm25"])[0] == 0
    recipe = load_recipe(here / "my-recipe.yaml")
    paths = {name: model.path for name, model in recipe.models.items()}
    assert paths == {"bm25-2": str(here / "a" / "bm25"), "bm25-3": str(here / "b" / "bm25")}


def test_by_default_the_included_models_are_taken_and_paths_belong_to_the_recipes_folder(here):
    (here / "sub dir").mkdir()
    (here / "passages.tsv").rename(here / "sub dir" / "it's.tsv")
    assert run(["init", "sub dir/it's.tsv", "queries.tsv"])[0] == 0
    recipe = load_recipe(here / "my-recipe.yaml")
    assert recipe.collection.input == (str(here / "sub dir" / "it's.tsv"),)
    assert {each.path for each in recipe.models.values()} == {"minilm"}
    assert recipe.evaluate is None
    written = (here / "my-recipe.yaml").read_text()
    assert "input: 'sub dir/it''s.tsv'" in written and "  # 2 queries\n" in written


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("passages.tsv", "gone.tsv"), "gone.tsv"),
        (("odd", "queries.tsv"), "its format is unknown; expected"),
        (("passages.tsv", "queries.tsv", "other.txt"), "found those of other queries only"),
        (("passages.tsv", "odd"), "query files may be id TAB text"),
        (("passages.tsv", "queries.tsv", "--models=nothing"), "no such model folder"),
        (("s3://b/p.tsv", "queries.tsv"), "init looks at files of this machine"),
    ],
)
def test_a_file_that_is_not_recognised_is_named_and_nothing_is_written(here, words, said, capsys):
    (here / "odd").write_bytes(b"\x89PNG\xff\n")
    (here / "other.txt").write_text("q9 0 b 1\n")
    assert run(["init", *words])[0] == 2
    assert said in capsys.readouterr().err
    assert not (here / "my-recipe.yaml").exists()


def test_a_recipe_that_is_there_is_never_overwritten(here, capsys):
    (here / "my-recipe.yaml").write_text("mine")
    assert run(["init", *FILES])[0] == 2
    assert "it is there already" in capsys.readouterr().err
    assert (here / "my-recipe.yaml").read_text() == "mine"


@pytest.mark.parametrize("verb", ["init", "plan"])
def test_empty_queries_and_quotes_of_a_csv_writer_are_told(here, capfd, verb, caplog):
    (here / "passages.tsv").write_text('a\t"a ""csv"" file"\nb\tzip\n')
    assert run(["init", *FILES])[0] == 0
    caplog.clear()
    (here / "queries.tsv").write_text('q1\t"the ""zip"" archive"\nq2\t \n')
    if verb == "init":
        (here / "my-recipe.yaml").unlink()
        assert run(["init", *FILES])[0] == 0
    else:
        run(["plan", "my-recipe.yaml"])
    assert "1 of 2 queries have no text: q2" in caplog.text
    assert caplog.text.count("seem to be those of a CSV file") == 1 + (verb == "init")
