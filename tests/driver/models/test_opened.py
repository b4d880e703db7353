"""Every model of a recipe is opened before its first store, and all problems are told at once."""

import json
import shutil

import drawn_models
import pytest

from raypipe.config.load import load_recipe
from raypipe.config.parts import Model
from raypipe.driver.models import open_or_tell, opened, unfit
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model

RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries:
  test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}
models:
  dense: {{path: {dense}}}
  mono: {{path: {mono}}}
stages:
  embeddings: {{do: encode, model: dense}}
  first: {{do: search, index: embeddings, depth: 20}}
  again: {{do: score, run: first, model: mono, k0: 5}}
evaluate: {{measures: ["nDCG@10"]}}
resources: {{backend: inline, device: cpu, shard_tokens: 2000}}
"""


@pytest.fixture
def refused(small_files, tiny_model, tiny_mono, tmp_path, raypipe_here):
    """What `raypipe pipeline` tells of a recipe with these models: it ends with 2, and no store."""

    def told(*more, **paths):
        paths = {"dense": tiny_model, "mono": tiny_mono, **paths}
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text(RECIPE.format(files=small_files, **paths))
        out = tmp_path / "work"
        ended = raypipe_here("pipeline", recipe, *more, "--out", out)
        assert ended.returncode == 2, ended.stderr
        assert [path.name for path in out.glob("stores/*@*")] == []
        return ended.stderr

    return told


def changed(folder, target, **settings):
    """A copy of a model with other settings in its raypipe.json."""
    shutil.copytree(folder, target)
    body = json.loads((target / "raypipe.json").read_text()) | settings
    (target / "raypipe.json").write_text(json.dumps(body))
    return target


def test_the_problems_of_all_models_are_told_before_the_first_store(
    refused, tiny_model, tiny_mono, tmp_path
):
    long = changed(tiny_model, tmp_path / "long", passage_limit=63, passage_segment=2)
    headless = shutil.copytree(tiny_model, tmp_path / "headless")
    shutil.copy(tiny_mono / "raypipe.json", headless / "raypipe.json")
    told = refused(dense=long, mono=headless)
    assert f"models.dense: {long}: the settings allow 65 tokens, the model has 64" in told
    assert f"models.dense: {long}: the settings use segment 2, the model has 2 segment" in told
    assert f"models.mono: {headless}: the checkpoint lacks the tensor" in told
    assert "no head that scores pairs" in told


def test_queries_that_cannot_be_read_are_told_with_them(refused, tiny_model, tmp_path):
    queries = tmp_path / "queries.tsv"
    queries.write_text("no tab\n")
    long = changed(tiny_model, tmp_path / "long", passage_limit=63)
    told = refused(f"queries.test.file={queries}", dense=long)
    assert "models.dense: " in told and f"{queries}: line 1" in told


def test_a_head_with_other_units_than_the_settings_say_is_refused(refused, tiny_mono, tmp_path):
    one = changed(tiny_mono, tmp_path / "one", relevant_label=None)
    told = refused(mono=one)
    assert f"models.mono: {one}: classifier.weight: the head has 2 units, the settings" in told


def test_an_encoder_that_should_rerank_is_told_with_stage_and_model(refused, tiny_model):
    told = refused(mono=tiny_model)
    assert f"stages.again: mono: {tiny_model}: expected a monoBERT or duoBERT model" in told


def test_a_reranker_that_should_encode_is_told_with_stage_and_model(refused, tiny_mono):
    told = refused(dense=tiny_mono)
    assert f"stages.embeddings: dense: {tiny_mono}: expected an encoder" in told


def test_a_tokenizer_without_its_special_tokens_is_refused(refused, tiny_model, tmp_path):
    bare = shutil.copytree(tiny_model, tmp_path / "bare")
    path = bare / "tokenizer.json"
    path.write_text(path.read_text().replace("[CLS]", "[START]"))
    told = refused(dense=bare)
    assert f"models.dense: {bare}: the tokenizer has no [CLS]" in told


def test_weights_of_another_architecture_are_refused(refused, tiny_model, tmp_path):
    other = shutil.copytree(tiny_model, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    told = refused(dense=other)
    assert f"models.dense: {other}: the checkpoint lacks the tensor h.0." in told


def test_limits_of_a_model_that_its_library_computes_are_compared_too(refused, tmp_path):
    folder = tmp_path / "mpnet"
    drawn_models.make(folder, "mpnet")
    body = {"kind": "encoder", "pooling": "mean", "normalise": True, "query_segment": 0}
    body |= {"passage_segment": 0, "query_limit": 20, "passage_limit": 500}
    (folder / "raypipe.json").write_text(json.dumps(body))
    told = refused(dense=folder)
    assert f"models.dense: {folder}: the settings allow 502 tokens, the model reads at" in told


def test_a_duo_model_without_its_third_segment_is_refused(refused, tiny, tmp_path):
    two = tiny.make_tiny_reranker(tmp_path / "two", kind="duo", segments=2)
    told = refused(mono=two)
    assert f"models.mono: {two}: a duoBERT model has three segments, the checkpoint has 2" in told
    assert "stages.again: mono is of kind duo, and the stage needs a model of kind mono" in told


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["models.mono.settings.relevant_label=null"], "the head has 2 units, the settings expect"),
        (["models.mono.preset=duobert"], "a duoBERT model has three segments, the checkpoint"),
    ],
)
def test_settings_over_an_adapter_that_do_not_fit_it_are_refused(refused, more, told):
    errors = refused(*more, "models.mono.path=general-mono")
    assert "models.mono: general-mono over " in errors and told in errors


def test_an_adapter_with_a_third_segment_of_its_own_fits():
    assert unfit(resolve_model("minilm-duo")) == unfit(resolve_model("general-mono")) == []
    with pytest.raises(InputError, match="minilm-duo over .*this one has 3, remove it"):
        resolve_model("minilm-duo", settings={"segment_row": "zero"})


def test_the_same_is_told_by_the_commands_for_one_stage(
    tiny_model, small_files, tmp_path, raypipe_here
):
    long = changed(tiny_model, tmp_path / "long", passage_limit=63)
    passages = small_files / "passages.tsv"
    for verb in ("tokenize", "encode"):
        out = tmp_path / verb
        ended = raypipe_here(verb, "--collection", passages, "--model", long, "--out", out)
        assert ended.returncode == 2
        assert f"models.model: {long}: the settings allow 65 tokens" in ended.stderr
        assert [path.name for path in out.glob("stores/*@*")] == []


def test_a_plan_tells_them_too(refused, tiny_model, small_files, tiny_mono, tmp_path, raypipe_here):
    long = changed(tiny_model, tmp_path / "long", passage_limit=63)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(files=small_files, dense=long, mono=tiny_mono))
    ended = raypipe_here("plan", recipe, "--out", tmp_path / "work")
    assert ended.returncode == 2 and f"models.dense: {long}: the settings allow" in ended.stderr


@pytest.mark.parametrize("word", ["auto", "fastest"])
def test_a_word_without_a_machine_leaves_the_precision_open(tiny_model, word):
    assert opened(Model(path=str(tiny_model)), word).precision == "fp32"
    assert opened(Model(path=str(tiny_model)), "bf16").precision == "bf16"


def test_problems_of_models_end_a_command_before_it_fetches_from_a_bucket_and_else_are_told_later(
    tiny_model, tmp_path
):
    """So that they are told with those of local files, which are read next."""
    text = RECIPE.format(files="FILES", dense=tiny_model, mono=tmp_path / "gone")

    def told(files, *others):
        recipe = load_recipe(text.replace("FILES", files), source="x")
        return open_or_tell(recipe, ["embeddings"], others, lambda line: None)

    missing = f"models.mono: {tmp_path / 'gone'}: "
    for problems in ((), ("another",)):
        models, found = told("/here", *problems)
        assert models == {} and tuple(found[:-1]) == problems and found[-1].startswith(missing)
        with pytest.raises(InputError) as raised:
            told("s3://nobody-has-this", *problems)
        assert raised.value.problems == found
