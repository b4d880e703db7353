import json

import pytest

from raypipe.driver.verbs.single_stage import collection_of, recipe_of, search_recipe
from raypipe.errors import InputError


@pytest.mark.parametrize(
    ("names", "form"),
    [
        (["corpus.jsonl.gz", "queries.jsonl"], "beir"),
        (["a.tsv.gz", "notes.md"], "msmarco-v1"),
        (["a.json", "b.txt"], "pyserini"),
        (["corpus.json"], "pyserini"),
        (["notes.md"], None),
        ([], None),
    ],
)
def test_a_folders_files_tell_its_format(tmp_path, names, form):
    folder = tmp_path / "c"
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    if form is None:
        with pytest.raises(InputError, match="nothing tells its format"):
            collection_of(folder)
    else:
        found = collection_of(folder)
        assert found == {"collection": {"format": form, "input": str(folder)}}
    (tmp_path / "corpus.jsonl").touch()  # a file: no BEIR folder
    assert collection_of(tmp_path / "corpus.jsonl")["collection"]["format"] == "pyserini"
    with pytest.raises(InputError, match="no such collection"):
        collection_of(tmp_path / "none")


def test_a_recipe_of_a_verb_names_where_it_came_from(tmp_path):
    keys = {"collection": {"format": "msmarco-v1", "input": "/c/p.tsv"}}
    found = recipe_of(keys, {"lucene": {"do": "index"}}, queries={}, evaluate=None)
    assert (found.format, found.name, found.queries, found.evaluate) == (1, "single", {}, None)
    with pytest.raises(InputError, match="the command line"):
        recipe_of(keys, {"lucene": {"do": "nothing"}})
    folder = tmp_path / "w"
    folder.mkdir()
    body = {**keys, "format": 1, "name": "x", "stages": {"r": {"do": "read", "runs": {}}}}
    (folder / "recipe.yaml").write_text(json.dumps(body))
    with pytest.raises(InputError, match="it has none; name one with --model"):
        search_recipe(folder, tmp_path / "q.tsv", model=None, depth=5, k1=None, b=None)
