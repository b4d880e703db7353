"""The recipe that reads copies in the place of a bucket's objects."""

import pytest

from raypipe.config import load_recipe
from raypipe.driver.inputs import with_copies
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
    again, few = with_copies(recipe(bucket_uri), tmp_path, collection=False)
    assert sorted(few.values()) == [f"{bucket_uri}/queries.tsv", f"{bucket_uri}/run.trec"]
