"""What is a hub's name, and what is a path."""

import pytest

from raypipe.uris import HubName, hub_name

COMMIT = "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a"


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
