"""Models by their names on a hub: what a person types, and what the hub is asked then."""

import json
import re
import shutil

import numpy as np
import pytest
import yaml
from small_training import phases_of

from raypipe.errors import InputError

NAME = "acme/tiny-encoder"
RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries:
  test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}
models:
  dense: {{path: {model}}}
stages:
  embeddings: {{do: encode, model: dense}}
  first: {{do: search, index: embeddings, depth: 20}}
evaluate: {{measures: ["nDCG@10"]}}
resources: {{backend: inline, device: cpu, shard_tokens: 2000}}
"""


@pytest.fixture
def few(tmp_path, small_files):
    """A few passages of the small collection, with its queries and judgements."""
    folder = tmp_path / "few"
    folder.mkdir()
    lines = (small_files / "passages.tsv").read_text().splitlines(keepends=True)[:30]
    (folder / "passages.tsv").write_text("".join(lines))
    for name in ("queries.test.tsv", "qrels.test.txt"):
        shutil.copy(small_files / name, folder / name)
    return folder


@pytest.fixture
def piped(few, tmp_path, raypipe_here):
    """`raypipe pipeline` with this model; with --frozen and other flags."""

    def ran(model, *more, out="work", code=0):
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(RECIPE.format(files=few, model=model))
        ended = raypipe_here("pipeline", recipe, *more, "--out", tmp_path / out)
        assert ended.returncode == code, ended.stderr
        return ended

    return ran


def model_in(out):
    return yaml.safe_load((out / "recipe.yaml").read_text())["models"]["dense"]


def run_of(out):
    return (out / "runs" / "test" / "first.trec").read_bytes()


def test_the_newest_commit_is_printed_written_down_and_kept_until_another_is_named(
    hub, piped, tiny_model, tiny, tmp_path
):
    commit = hub.push(NAME, tiny_model)
    first = piped(NAME)
    assert f"models.dense: {NAME} at {commit}, the newest of main" in first.stderr
    assert re.search(rf"models.dense: fetched 4 files of {NAME}, [\d.]+ MB", first.stderr)
    out = tmp_path / "work"
    assert model_in(out) == {"path": f"hf://{NAME}", "revision": commit, "branch": "main"}
    newer = hub.push(NAME, tiny.make_tiny_bert(tmp_path / "newer", seed=5))
    number = len(hub.asked)
    for more in ((), ("--frozen",)):
        again = piped(NAME, *more)
        assert f"{NAME} at {commit}, as in this workspace before" in again.stderr
        assert "0 shards" not in again.stderr and len(hub.asked) == number
    moved = piped(f"{NAME}@{newer}", "--frozen", code=4)
    assert "weights_sha256" in moved.stderr
    before = run_of(out)
    piped(f"{NAME}@{newer}")
    assert run_of(out) != before and model_in(out)["revision"] == newer


def test_runs_are_those_of_the_same_files_in_a_folder(hub, piped, tiny_model, tmp_path):
    hub.push(NAME, tiny_model)
    piped(NAME)
    piped(tiny_model, out="of-folder")
    assert run_of(tmp_path / "work") == run_of(tmp_path / "of-folder")
    assert not list((tmp_path / "work" / "stores").glob("hub@*"))


@pytest.mark.fault(38, "a commit that the cache has is used without a request")
def test_what_the_cache_has_is_used_offline_and_an_empty_cache_is_refused(
    hub, piped, tiny_model, tmp_path, offline
):
    commit = hub.push(NAME, tiny_model)
    piped(NAME)
    offline()
    number = len(hub.asked)
    for name in (f"{NAME}@{commit}", NAME):
        assert " stages, 9 reused, " in piped(name).stderr
    piped(f"{NAME}@{commit}", out="other")
    shutil.rmtree(tmp_path / "library")
    refused = piped(NAME, code=2).stderr
    assert f"models.dense: {NAME} at {commit}: huggingface_hub could not fetch it" in refused
    assert f"`hf download {NAME} --revision {commit}` fetches both" in refused
    assert len(hub.asked) == number


def test_every_model_that_a_hub_does_not_give_is_told_at_once(hub, piped, tmp_path):
    told = piped("acme/first}\n  other: {path: acme/second", code=2).stderr
    assert "models.dense: acme/first: huggingface_hub could not" in told
    assert "models.other: acme/second: huggingface_hub could not" in told
    assert not list((tmp_path / "work" / "stores").glob("*@*"))


def test_a_folder_of_that_name_is_a_folder_and_no_hub_is_asked(
    hub, piped, tiny_model, tmp_path, monkeypatch
):
    hub.push(NAME, tiny_model)
    shutil.copytree(tiny_model, tmp_path / "acme" / "tiny-encoder")
    piped(NAME)  # relative to the recipe's folder
    assert model_in(tmp_path / "work")["path"] == str(tmp_path / "acme" / "tiny-encoder")
    assert hub.asked == []
    assert "acme/none: no such file or folder" in piped("acme/none", code=2).stderr
    assert hub.asked == []
    piped(f"hf://{NAME}", out="of-hub")
    assert hub.asked != []


def test_prompts_that_the_recipe_states_are_put_before_texts_and_asked_for_if_need_be(
    hub, piped, tiny_model, tmp_path
):
    folder = shutil.copytree(tiny_model, tmp_path / "e5")
    told = piped(folder, code=2).stderr
    assert "models of the family e5" in told and '"query_prefix"' in told
    assert "models.NAME.settings" in told and not list((tmp_path / "work/stores").glob("*@*"))
    piped(folder, "models.dense.settings.query_prefix=a zebra")
    piped(folder, 'models.dense.settings.query_prefix=""', out="none")
    assert run_of(tmp_path / "work") != run_of(tmp_path / "none")


def test_prompts_that_are_known_by_the_hubs_name_are_used(hub, raypipe_here, tiny_model):
    hub.push("intfloat/e5-small-v2", tiny_model)
    shown = raypipe_here("model", "show", "intfloat/e5-small-v2", "--json")
    found = json.loads(shown.stdout)
    assert found["conventions"]["query_prefix"] == "query: "
    assert found["conventions"]["passage_prefix"] == "passage: "
    assert found["sources"]["query_prefix"].startswith("known of intfloat/e5-small-v2")


def test_the_commands_for_one_stage_take_the_name(
    hub, few, tiny_mono, tmp_path, raypipe_here, inline
):
    name = "acme/tiny-mono"
    commit = hub.push(name, tiny_mono)
    ids = [line.split("\t")[0] for line in (few / "passages.tsv").read_text().splitlines()]
    query = (few / "queries.test.tsv").read_text().split("\t")[0]
    lines = [f"{query} Q0 {passage} {rank} {-rank} x\n" for rank, passage in enumerate(ids[:5], 1)]
    (tmp_path / "run.trec").write_text("".join(lines))
    command = ["score", "--run", tmp_path / "run.trec", "--collection", few / "passages.tsv"]
    command += ["--queries", few / "queries.test.tsv", "--k0", "3", "--out", tmp_path / "out"]
    ended = raypipe_here(*command, "--model", f"{name}@{commit}")
    assert ended.returncode == 0, ended.stderr
    number = len(hub.asked)
    ended = raypipe_here(*command, "--model", name)
    assert ended.returncode == 0, ended.stderr
    assert len(hub.asked) > number  # nothing was said of the newest before
    number = len(hub.asked)
    ended = raypipe_here(*command, "--model", name)
    assert ended.returncode == 0 and len(hub.asked) == number, ended.stderr


def test_a_plan_stores_nothing(hub, few, tiny_model, tmp_path, raypipe_here):
    hub.push(NAME, tiny_model)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(files=few, model=NAME))
    ended = raypipe_here("plan", recipe, "--out", tmp_path / "work")
    assert ended.returncode == 0, ended.stderr
    assert "embeddings" in ended.stdout and not (tmp_path / "work").exists()


def test_python_encodes_with_a_hubs_model(hub, tiny_model):
    import raypipe

    commit = hub.push(NAME, tiny_model)
    texts = ["the zebra runs", "a lease"]
    found = raypipe.encode(texts, model=f"{NAME}@{commit}", device="cpu")
    np.testing.assert_array_equal(found, raypipe.encode(texts, model=tiny_model, device="cpu"))


@pytest.mark.slow
def test_a_training_starts_from_a_hubs_model_and_keeps_its_commit(
    hub, small_recipe, tiny_model, tmp_path, raypipe_here
):
    commit = hub.push(NAME, tiny_model)
    path = small_recipe(
        model={"start": NAME, "preset": "monobert", "query_limit": 12, "total_limit": 64},
        resources={"backend": "inline", "device": "cpu"},
    )
    out = tmp_path / "trained"
    ended = raypipe_here("train", path, "--out", out)
    assert ended.returncode == 0, ended.stderr
    assert f"model.start: {NAME} at {commit}, the newest of main" in ended.stderr
    held = yaml.safe_load((out / "recipe.yaml").read_text())["model"]
    assert (held["start"], held["revision"]) == (f"hf://{NAME}", commit)
    assert f"start: {NAME}@{commit}" in (out / "models" / "small" / "README.md").read_text()
    number = len(hub.asked)
    ended = raypipe_here("train", path, "--out", out)
    assert ended.returncode == 0 and len(hub.asked) == number, ended.stderr


def test_what_is_wrong_with_a_hubs_start_or_a_later_phase_from_it_is_told_before_any_work(
    hub, small_recipe, train, tiny_model, tmp_path
):
    out, path = tmp_path / "trained", small_recipe(model={"start": NAME})
    with pytest.raises(InputError) as raised:
        train(path, out)
    (problem,) = raised.value.problems
    assert problem.startswith(f"model.start: {NAME}: huggingface_hub could not ")
    hub.push(NAME, tiny_model)
    later = {"steps": 4, "model": {"total_limit": 65}, "validate": {"every": 4}}
    with pytest.raises(InputError, match="phase part-2: model: its limits allow 65 tokens"):
        train(phases_of(path, {"steps": 4, "validate": {"every": 4}}, later), out)
    assert not list(out.glob("stores/*@*"))


@pytest.mark.slow
def test_the_librarys_own_variables_name_mirror_token_and_offline_mode(
    hub, few, tiny_model, tmp_path, raypipe_cli
):
    hub.push(NAME, tiny_model)
    hub.private[NAME] = "hf_right"
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(files=few, model=NAME))
    places = {**hub.environment(tmp_path / "own"), "XDG_CACHE_HOME": str(tmp_path / "own")}
    command = ["pipeline", recipe, "--out", tmp_path / "work"]
    refused = raypipe_cli(*command, **places)
    assert refused.returncode == 2 and "set HF_TOKEN to a token" in refused.stderr
    ended = raypipe_cli(*command, **{**places, "HF_TOKEN": "hf_right"})
    assert ended.returncode == 0, ended.stderr
    assert "Fetching" not in ended.stderr  # a bar of progress is for terminals
    assert {token for _, _, token in hub.asked} == {"", "hf_right"}
    hub.asked.clear()
    again = raypipe_cli(*command, "--frozen", **{**places, "HF_HUB_OFFLINE": "1"})
    assert again.returncode == 0 and hub.asked == [], again.stderr


def test_a_search_of_a_workspace_finds_its_hubs_model_in_the_cache(
    hub, piped, few, tiny_model, tmp_path, raypipe_here, offline, inline
):
    hub.push(NAME, tiny_model)
    piped(NAME)
    number = len(hub.asked)
    offline()
    work = tmp_path / "work"
    ended = raypipe_here("search", "--index", work, "--query", "the zebra", "--model", NAME)
    assert ended.returncode == 0 and len(hub.asked) == number, ended.stderr
    assert len(ended.stdout.splitlines()) > 5
