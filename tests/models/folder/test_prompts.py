"""Prompts that are known, and families of which they are asked."""

import json
import shutil

import pytest

from raypipe.errors import InputError
from raypipe.models.folder.discover import (
    discover,
    family_that_asks,
    hub_name_of,
    known_prompts,
)
from raypipe.models.folder.modules import ModelFiles

BGE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("intfloat/multilingual-e5-small", "e5"),
        ("my-E5", "e5"),
        ("bge_small", "bge"),
        ("thenlper/gte-base", "gte"),
        ("Qwen/Qwen3-Embedding-0.6B", "qwen3-embedding"),
        ("Qwen/Qwen3-0.6B", None),
        ("minilm", None),
        ("lr-2e5", None),
        ("bger", None),
        ("integer", None),
    ],
)
def test_families_are_told_by_whole_words_of_names(name, family):
    assert family_that_asks(["x", name]) == family


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("BAAI/bge-small-en-v1.5", BGE, ""),
        ("baai/BGE-large-en", BGE, ""),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("thenlper/gte-base-zh", "", ""),
    ],
)
def test_the_prompts_of_a_hubs_model_are_known_by_its_whole_name(name, query, passage):
    found = known_prompts(name)
    assert found is not None and (found.query, found.passage) == (query, passage)
    assert found.source.startswith("arXiv ")
    owner, bare = name.split("/")
    for other in (f"someone/{bare}", bare, f"{name}-x", f"{owner}/{bare.replace('-', '_')}", ""):
        assert known_prompts(other) is None


def test_a_folder_of_the_librarys_cache_has_the_hubs_name(tmp_path):
    folder = tmp_path / "models--intfloat--e5-small" / "snapshots" / "abc"
    assert hub_name_of(folder) == "intfloat/e5-small"
    assert hub_name_of(tmp_path / "models--e5-small" / "snapshots" / "abc") == "e5-small"
    assert hub_name_of(tmp_path / "models--intfloat--e5-small" / "abc") is None
    assert hub_name_of(tmp_path / "e5-small" / "snapshots" / "abc") is None


def stated(folder, **settings):
    body = json.loads((folder / "raypipe.json").read_text()) | settings
    (folder / "raypipe.json").write_text(json.dumps(body))


def test_a_cached_e5_has_its_prompts_unless_the_folder_says_others(tiny_model, tmp_path):
    folder = tmp_path / "models--intfloat--e5-small" / "snapshots" / "abc"
    shutil.copytree(tiny_model, folder)
    found = discover(ModelFiles(folder), None)
    assert (found.conventions.query_prefix, found.conventions.passage_prefix) == (
        "query: ",
        "passage: ",
    )
    assert found.sources["passage_prefix"].startswith("known of intfloat/e5-small (")
    assert discover(ModelFiles(folder), "repbert").conventions.query_prefix == "query: "
    stated(folder, query_prefix="", passage_prefix="p: ")
    own = discover(ModelFiles(folder), None)
    assert (own.conventions.query_prefix, own.conventions.passage_prefix) == ("", "p: ")
    assert own.sources["query_prefix"] == "raypipe.json"


@pytest.mark.parametrize("preset", [None, "repbert"])
def test_an_unknown_model_of_such_a_family_is_asked_for_and_never_silently_without(
    tiny_model, tmp_path, preset
):
    folder = shutil.copytree(tiny_model, tmp_path / "our-e5")
    with pytest.raises(InputError) as caught:
        discover(ModelFiles(folder), preset)
    told = str(caught.value)
    assert told.startswith(f"{folder}: query_prefix, passage_prefix: models of the family e5")
    assert 'put "query_prefix" and "passage_prefix" in a raypipe.json' in told
    assert "models.NAME.settings" in told and "docs/models.md" in told
    settings = {"query_prefix": "", "passage_prefix": ""}
    found = discover(ModelFiles(folder), preset, settings=settings)
    assert found.sources["query_prefix"] == "the recipe's settings"


def test_the_name_in_config_json_asks_too_and_a_reranker_is_never_asked(
    tiny_model, tiny_mono, tmp_path
):
    folder = shutil.copytree(tiny_model, tmp_path / "plain")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"_name_or_path": "thenlper/gte-x"}))
    with pytest.raises(InputError, match="models of the family gte"):
        discover(ModelFiles(folder), None)
    reranker = shutil.copytree(tiny_mono, tmp_path / "bge-reranker")
    assert discover(ModelFiles(reranker), None).conventions.kind == "mono"


def test_a_recipes_settings_override_a_preset_and_wrong_ones_are_refused(tiny_model):
    found = discover(ModelFiles(tiny_model), "repbert", settings={"pooling": "cls"})
    assert found.conventions.pooling == "cls" and found.conventions.query_limit == 20
    assert found.sources["pooling"] == "the recipe's settings"
    assert found.sources["query_limit"] == "preset repbert"
    with pytest.raises(InputError, match="pooling_: did you mean pooling?"):
        discover(ModelFiles(tiny_model), None, settings={"pooling_": "cls"})


def test_a_raypipe_json_without_its_kind_says_where_it_is_documented(tiny_model, tmp_path):
    folder = shutil.copytree(tiny_model, tmp_path / "m")
    (folder / "raypipe.json").write_text("{}")
    with pytest.raises(InputError, match="raypipe.json: kind: expected .*docs/models.md"):
        discover(ModelFiles(folder), None)
