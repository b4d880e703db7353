"""A recipe that reads a generation may use the same names for other things."""

import pytest
from recipes import invoke, write_files

from raypipe.errors import InputError

RECIPE = """
format: 1
name: nightly
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{queries: {{file: {folder}/{queries}.tsv}}}}
models: {{model: {{path: {model}}}}}
stages:
  {index}: {{do: encode, model: model}}
  dense: {{do: search, index: {index}, depth: 5}}
stores: {folder}/work/stores
resources: {{backend: inline, device: cpu}}
"""


@pytest.fixture
def read(tmp_path, tiny_model):
    """Invokes the recipe on the generation, after it was made; with the names that are given."""
    write_files(tmp_path, ["the zebra", "a lease", "of shards"])
    (tmp_path / "one.tsv").write_text("1\tthe zebra\n")
    (tmp_path / "two.tsv").write_text("7\ta lease\n8\tof shards\n")
    names = {"queries": "one", "model": tiny_model, "index": "vectors"}

    def invoked(out, options, **others):
        text = RECIPE.format(folder=tmp_path, **{**names, **others})
        return invoke(text, tmp_path / out, **options).summary["stages"]

    invoked("work", {"reindex": True})
    return lambda out, **others: invoked(out, {"reading": ("nightly", 1)}, **others)


def test_another_query_set_of_the_same_name_is_searched_with_its_own_queries(read, tmp_path):
    stages = read("found", queries="two")
    assert stages["queries@queries"]["rows"] == 2 and stages["vectors"]["reused"]
    lines = (tmp_path / "found" / "runs" / "queries" / "dense.trec").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["7"] * 3 + ["8"] * 3


def test_embeddings_of_another_model_of_the_same_name_are_refused(read, tiny, tmp_path):
    other = tiny.make_tiny_bert(tmp_path / "other", seed=4)
    changed = r"vectors/\w{32}: the model differs .* params.weights_sha256 \w{12} -> \w{12}\. Its"
    with pytest.raises(InputError, match=changed):
        read("weights", model=other)
    other = tiny.make_tiny_bert(tmp_path / "prefixed", query_prefix="run ")
    with pytest.raises(InputError, match="conventions.query_prefix"):
        read("prefix", model=other)
    with pytest.raises(InputError, match="passages: the tokenizer, or the version of tokenizers"):
        read("pieces", model=without_zebra(tiny, tmp_path / "tokenizer"))


def test_word_pieces_of_another_tokenizer_are_made_anew(read, tiny, tmp_path):
    same = read("same", index="others")
    assert same["tokens@model"]["reused"] and not same["others"]["reused"]
    found = read("found", index="others", model=without_zebra(tiny, tmp_path / "tokenizer"))
    assert not found["tokens@model"]["reused"]
    assert found["tokens@model"]["fingerprint"] != same["tokens@model"]["fingerprint"]


def without_zebra(tiny, folder):
    """The tiny model, with a tokenizer that does not know the word."""
    tokenizer = tiny.make_tiny_bert(folder) / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"zebra"', '"zebu"'))
    return folder
