"""What is a hub's name, and what is a path."""

import pytest

from raypipe.config import load_recipe, load_training
from raypipe.errors import InputError
from raypipe.hub_names import HubName, hub_name

COMMIT = "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a"
BODY = """
format: 1
name: x
collection: {{format: msmarco-v1, input: passages.tsv}}
queries: {{test: {{file: q.tsv}}}}
models: {{m: {{{model}}}}}
stages: {{vectors: {{do: encode, model: m}}}}
"""


@pytest.mark.parametrize(
    ("text", "repository", "revision"),
    [
        ("BAAI/bge-small-en-v1.5", "BAAI/bge-small-en-v1.5", None),
        (f"BAAI/bge-small-en-v1.5@{COMMIT}", "BAAI/bge-small-en-v1.5", COMMIT),
        ("intfloat/e5_base@refs/pr/7", "intfloat/e5_base", "refs/pr/7"),
        ("hf://intfloat/e5-base", "intfloat/e5-base", None),
        ("hf://bert-base-uncased@main", "bert-base-uncased", "main"),
    ],
)
def test_a_hubs_name(tmp_path, text, repository, revision):
    assert hub_name(text, tmp_path) == HubName(repository, revision)


@pytest.mark.parametrize(
    "text",
    [
        "bert-base-uncased", "./BAAI/bge", "../BAAI/bge", "/BAAI/bge", "a/b/c", "BAAI/",
        "BAAI/bge/", "BAAI/.bge", "-/b", "s3://bucket/x", "a b/c", "C:\\models\\x", "BAAI/bge@",
        "hf://", "hf://a/b/c",
    ],
)  # fmt: skip
def test_what_is_a_path(tmp_path, text):
    assert hub_name(text, tmp_path) is None


def test_a_folder_of_the_owners_name_makes_it_a_path_but_for_the_scheme(tmp_path):
    (tmp_path / "models").mkdir()
    assert hub_name("models/bge", tmp_path) is None
    assert hub_name("models/bge", tmp_path / "elsewhere") == HubName("models/bge")
    assert hub_name("hf://models/bge", tmp_path) == HubName("models/bge")


def test_a_link_to_a_folder_that_is_not_there_now_makes_it_a_path_too(tmp_path):
    (tmp_path / "models").symlink_to(tmp_path / "unmounted")
    assert hub_name("models/bge", tmp_path) is None


def test_only_a_whole_commit_is_one():
    assert HubName("a/b", COMMIT).is_commit
    for revision in (None, "main", COMMIT[:12], COMMIT.upper(), COMMIT + "0"):
        assert not HubName("a/b", revision).is_commit


def loaded(model, base):
    return load_recipe(BODY.format(model=model), base=base).models["m"]


def test_a_recipes_name_becomes_a_uri_with_its_revision_apart(tmp_path):
    for model in (f"path: a/b@{COMMIT}", f"path: a/b, revision: {COMMIT}"):
        found = loaded(model, tmp_path)
        assert (found.path, found.revision) == ("hf://a/b", COMMIT)
    assert loaded("path: a/b/c", tmp_path).path == str(tmp_path / "a" / "b" / "c")
    assert loaded("path: minilm", tmp_path).path == "minilm"
    assert loaded("path: 'file:///models/a'", tmp_path).path == "/models/a"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("path: a/b@v1, revision: v2", "models.m.revision: v2, and the name of the model has v1"),
        ("path: ./a, revision: v2", "models.m.revision: v2: of a hub's model only"),
        ("path: minilm, revision: v2", "models.m.revision: v2: of a hub's model only"),
        ("path: 'hf://a/b/c'", "models.m: 'a/b/c': expected after hf:// OWNER/NAME"),
        ("path: 'HF://a/b'", "models.m: HF://a/b: expected a folder, .* found a URI"),
        ("path: 'https://huggingface.co/a/b'", "models.m: https://.*: expected .* hf://OWNER/NAME"),
        ("path: 's3://me:secret@bucket/m'", r"models.m: s3://\S*bucket/m: expected a folder"),
        ("path: a/b, settings: {pooling: [cls]}", "settings: expected text, a number, true, false"),
    ],
)
def test_names_that_contradict_themselves_are_refused(tmp_path, model, told):
    with pytest.raises(InputError, match=told):
        loaded(model, tmp_path)


def test_a_trainings_start_is_named_the_same_way(tmp_path):
    body = """
format: 1
name: x
model: {{{model}, preset: monobert}}
collections: {{c: {{format: msmarco-v1, input: p.tsv}}}}
train: {{t: {{collection: c, queries: q.tsv, qrels: q.txt, negatives: {{runs: r.trec}}}}}}
loss: {{name: cross-entropy}}
steps: 100
batch: 2
optimiser: {{warmup: 10}}
checkpoint_every: 10
"""
    found = load_training(body.format(model="start: a/b@v1"), base=tmp_path).model
    assert (found.start, found.revision) == ("hf://a/b", "v1")
    folder = load_training(body.format(model="start: ./a/b"), base=tmp_path).model
    assert (folder.start, folder.revision) == (str(tmp_path / "a" / "b"), None)
    with pytest.raises(InputError, match="model.start.revision: v2: of a hub's model only"):
        load_training(body.format(model="start: ./a/b, revision: v2"), base=tmp_path)
