"""The recipe that reads copies in the place of a bucket's objects."""

import os
import sys
from types import SimpleNamespace

import pytest

from raypipe.config.load import load_recipe
from raypipe.driver.inputs import with_copies
from raypipe.errors import InputError
from raypipe.storage.bucket import BucketStorage

RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: [/here/a.tsv, {data}/parts]}}
queries: {{test: {{file: {data}/queries.tsv, qrels: /here/qrels.txt}}}}
stages:
  given: {{do: read, runs: {{test: {data}/run.trec}}}}
stores: {data}/stores
"""


def recipe(data):
    return load_recipe(RECIPE.format(data=data), source="tiny")


def test_a_recipe_without_objects_is_left_alone(tmp_path):
    given = recipe("/there")
    assert with_copies(given, tmp_path / "inputs") == (given, {})
    assert not (tmp_path / "inputs").exists()


@pytest.mark.slow
def test_each_object_gets_a_copy_and_what_is_local_or_no_input_stays(bucket_uri, tmp_path):
    place = BucketStorage(bucket_uri)
    for name in ("parts/b.tsv", "parts/c.tsv", "queries.tsv", "run.trec"):
        place.replace(name, name.encode())
    found, sources = with_copies(recipe(bucket_uri), tmp_path)
    names = {path: uri.removeprefix(f"{bucket_uri}/") for path, uri in sources.items()}
    files = [names.get(path, path) for path in found.collection.input]
    assert files == ["/here/a.tsv", "parts/b.tsv", "parts/c.tsv"]
    assert names[found.queries["test"].file] == "queries.tsv"
    assert found.queries["test"].qrels == "/here/qrels.txt"
    assert names[found.stages["given"].runs["test"]] == "run.trec"
    assert found.stores == f"{bucket_uri}/stores"
    place.replace("parts/queries.tsv", b"")
    with pytest.raises(InputError, match="parts: queries.tsv is under it, which seems to be no"):
        with_copies(recipe(bucket_uri), tmp_path)
    place.delete("parts/queries.tsv")
    place.replace("queries.tsv/1", b"")
    place.replace("queries.tsv/2", b"")
    place.delete("queries.tsv")
    with pytest.raises(
        InputError, match="queries.tsv: expected one object, found 2 under a prefix"
    ):
        with_copies(recipe(bucket_uri), tmp_path)
    for name in ("queries.tsv/1", "queries.tsv/2"):
        place.delete(name)
    place.replace("queries.tsv", b"queries.tsv")
    again, few = with_copies(recipe(bucket_uri), tmp_path, collection=False)
    assert sorted(few.values()) == [f"{bucket_uri}/queries.tsv", f"{bucket_uri}/run.trec"]


def test_queries_and_judgements_of_a_data_set_become_files_written_again_if_they_differ(
    tmp_path, monkeypatch
):
    """By a stand-in for ir_datasets, which need not be installed; test_datasets.py has itself."""
    texts = {"q1": "a \N{SNOWMAN}", "q2": "b"}

    def load(name):
        assert name == "mini/test"
        asked = [SimpleNamespace(query_id=q, default_text=lambda t=t: t) for q, t in texts.items()]
        judged = SimpleNamespace(query_id="q1", doc_id="d7", relevance=2)
        return SimpleNamespace(
            has_queries=lambda: True, has_qrels=lambda: True,
            queries_iter=lambda: asked, qrels_iter=lambda: [judged],
        )  # fmt: skip

    monkeypatch.setitem(sys.modules, "ir_datasets", SimpleNamespace(load=load))
    given = recipe("/here")
    irds = "irds:mini/test"
    names = {"file": irds, "qrels": None, "document_qrels": irds}
    more = given.queries["test"].model_copy(update=names)
    both = given.model_copy(update={"queries": {**given.queries, "more": more}})
    found, sources = with_copies(both, tmp_path)
    assert sources == {} and found.queries["test"] == given.queries["test"]
    file, qrels = (tmp_path / getattr(found.queries["more"], key) for key in
                   ("file", "document_qrels"))  # fmt: skip
    assert {*tmp_path.rglob("*.*")} == {file, qrels} and found.queries["more"].qrels is None
    assert (file.name, qrels.name) == ("queries.jsonl", "qrels.txt")
    assert file.parent.parent == qrels.parent.parent == tmp_path != file.parent != qrels.parent
    first = '{"_id": "q1", "text": "a \\u2603"}\n'
    assert file.read_text() == first + '{"_id": "q2", "text": "b"}\n'
    assert qrels.read_text() == "q1 0 d7 2\n"
    for path in (file, qrels):
        os.utime(path, (0, 0))
    del texts["q2"]
    assert with_copies(both, tmp_path)[0] == found and file.read_text() == first
    assert qrels.stat().st_mtime == 0 != file.stat().st_mtime
