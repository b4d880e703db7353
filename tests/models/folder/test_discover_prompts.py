"""Settings with a prompt: needed where an architecture reads one, refused everywhere else."""

import json
import re
from dataclasses import replace

import pytest
from tiny_t5 import DUO, MONO, make_tiny_t5

from raypipe.errors import InputError
from raypipe.models.folder.discover import discover
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.folder.settings import PRESETS, PairConventions, conventions_problems

ENCODER = {"kind": "encoder", "pooling": "mean", "normalise": False, "query_segment": 0,
           "passage_segment": 0, "query_limit": 8, "passage_limit": 8}  # fmt: skip


@pytest.fixture
def t5(tmp_path):
    make_tiny_t5(tmp_path / "t5")
    return tmp_path / "t5"


def told(folder, preset=None, **given):
    with pytest.raises(InputError) as caught:
        resolve_model(str(folder), preset, **given)
    return str(caught.value)


def settings(folder, body):
    (folder / "raypipe.json").write_text(json.dumps(body))


def test_a_folder_without_settings_is_told_the_presets_that_read_a_prompt(t5):
    (t5 / "raypipe.json").unlink()
    found = told(t5)
    assert found.startswith(f"{t5}: model_type t5 scores a prompt, which nothing states: name the")
    assert "preset monot5 or duot5, or put kind, prompt, answers" in found
    settings(t5, {"score": "raw"})
    assert "name the preset monot5 or duot5" in told(t5)


@pytest.mark.parametrize("preset", ["monot5", "duot5", "monot5-mmarco"])
def test_a_preset_is_enough(t5, preset):
    (t5 / "raypipe.json").unlink()
    assert resolve_model(str(t5), preset).conventions == PRESETS[preset]


@pytest.mark.parametrize(
    ("preset", "problem"),
    [
        ("monobert", "as CrossEncoder|lacks the tensor classification_head"),
        ("duobert", "kind duo: expected a BERT"),
        ("bert", "kind pretrained: expected a BERT"),
        ("repbert", "passage_segment: expected 0"),
    ],
)
def test_settings_of_a_bert_are_refused(t5, preset, problem):
    assert re.search(problem, told(t5, preset))


def test_a_bert_reads_no_prompt(mono):
    found = told(mono, "monot5")
    assert f"{mono}: prompt: the settings have one, and model_type bert reads none" in found


def test_a_config_without_an_architecture_reads_none_either(mono):
    body = json.loads((mono / "config.json").read_text())
    del body["model_type"]
    (mono / "config.json").write_text(json.dumps(body))
    assert "config.json: model_type: expected bert, found none" in told(mono, "monot5")


def test_the_base_of_an_adapter_with_a_prompt_reads_none_either(mono):
    with pytest.raises(InputError, match=f"{mono}: prompt: the settings have one, and model_type"):
        replace(resolve_model(str(mono)), conventions=PRESETS["monot5"])


def test_a_tokenizer_without_the_answers_is_refused_with_its_pieces(t5):
    settings(t5, MONO | {"answers": ["zebras", "true"]})
    assert re.search(rf"{t5}: answers: expected words .* found 'zebras' as", told(t5))


def test_a_recipes_settings_override_a_preset(t5):
    found = discover(
        ModelFiles(t5), "monot5", settings={"answers": ["no", "yes"], "query_limit": 9}
    )
    assert found.conventions == replace(PRESETS["monot5"], answers=("no", "yes"), query_limit=9)
    assert found.sources["answers"] == "the recipe's settings"
    assert found.sources["prompt"] == "preset monot5"


def pair(**changes):
    return PairConventions(**{**MONO, **changes})


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (pair(prompt=None), "prompt: expected text beside answers, found None"),
        (pair(prompt=7), "prompt: expected text beside answers, found 7"),
        (pair(prompt="{query}"), "prompt: expected a text with {query}, {passage}, each once"),
        (pair(prompt="x" * 10_001), "prompt: expected at most 10,000 characters"),
        (pair(answers=None), "answers: expected the words of units 0 and 1, found None; as in "),
        (pair(answers=["true"]), "answers: expected the words of units 0 and 1, found ('true',)"),
        (pair(answers=["a", "b", "c"]), "answers: expected the words of units 0 and 1"),
        (pair(answers="true"), "answers: expected the words of units 0 and 1, found 'true'"),
        (pair(answers=[False, True]),
         "answers: expected the words of units 0 and 1, found (False, True); as in "
         '["false", "true"], with quotes also in YAML'),
        (pair(answers=[0, 1]), "answers: expected the words of units 0 and 1, found (0, 1)"),
        (pair(answers=["a", "a"]), "answers: expected two words, found 'a' twice"),
        (pair(relevant_label=None), "relevant_label: expected 0 or 1, the place in answers"),
        (pair(segment_row="zero"), "segment_row: only for a BERT's inputs, not for a prompt"),
        (pair(first_tokenizer=True), "first_tokenizer: only for a BERT's inputs, not for a prompt"),
        (PairConventions(**DUO | {"prompt": MONO["prompt"]}),
         "prompt: expected a text with {query}, {passage_0}, {passage_1}"),
    ],
)  # fmt: skip
def test_settings_that_no_prompt_has_are_told_by_field(found, problem):
    (only,) = conventions_problems(found)
    assert only.startswith(problem)


def test_settings_with_a_prompt_are_whole():
    assert conventions_problems(pair()) == [] == conventions_problems(PairConventions(**DUO))
    assert pair(query_limit=None).answers == ("false", "true")
    assert conventions_problems(pair(query_limit=None)) == []
    few = pair(prompt="{query} {passage}", query_limit=10, total_limit=12)  # and </s> is one more
    assert conventions_problems(few) == []


def test_a_prompt_is_in_the_fingerprint_and_has_no_segments():
    bare = {name: value for name, value in MONO.items() if name not in ("prompt", "answers")}
    assert PairConventions(**bare).to_json()["prompt"] is None
    assert PairConventions(**DUO).to_json()["prompt"] == DUO["prompt"]
    assert PairConventions(**bare | {"kind": "duo"}).three_segments
    assert not PairConventions(**DUO).three_segments and not pair().three_segments
