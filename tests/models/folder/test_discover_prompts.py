"""Settings with a prompt: needed where an architecture reads one, refused everywhere else."""

import json
from dataclasses import replace

import pytest
from tiny_t5 import DUO, MONO, make_tiny_t5

from raypipe.errors import InputError
from raypipe.models.folder.discover import discover
from raypipe.models.folder.model_folder import layouts_of, resolve_configuration, resolve_model
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
    assert found.startswith(f"{t5}: model_type t5 scores a prompt, and is neither trained nor an")
    assert "name a preset (monot5, monot5-mmarco, duot5), or put kind, prompt, answers" in found
    settings(t5, {"score": "raw"})
    assert "name a preset (monot5, monot5-mmarco, duot5)" in told(t5)


@pytest.mark.parametrize("preset", ["monot5", "duot5", "monot5-mmarco"])
def test_a_preset_is_enough(t5, preset):
    (t5 / "raypipe.json").unlink()
    found = resolve_model(str(t5), preset).conventions
    assert found == PRESETS[preset] and layouts_of(resolve_model(str(t5), preset))["pair"].answers


@pytest.mark.parametrize("preset", ["monobert", "duobert", "repbert", "bert"])
def test_settings_without_a_prompt_are_refused_with_those_that_have_one(t5, preset):
    kind = PRESETS[preset].kind
    assert f"{t5}: kind {kind} without a prompt: model_type t5 scores a prompt" in told(t5, preset)


def test_an_encoder_is_refused_also_if_its_files_are_sentence_transformers(t5):
    settings(t5, ENCODER)
    assert "kind encoder without a prompt" in told(t5)
    (t5 / "raypipe.json").unlink()
    parts = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules = [
        {"idx": number, "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(parts)
    ]
    (t5 / "modules.json").write_text(json.dumps(modules))
    (t5 / "1_Pooling").mkdir()
    pooling = {"pooling_mode_mean_tokens": True, "word_embedding_dimension": 32}
    (t5 / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    assert "model_type t5" in told(t5)


def test_a_head_for_sequences_is_no_prompt(t5):
    (t5 / "raypipe.json").unlink()
    body = json.loads((t5 / "config.json").read_text())
    body |= {"architectures": ["T5ForSequenceClassification"], "num_labels": 1}
    (t5 / "config.json").write_text(json.dumps(body))
    assert "model_type t5" in told(t5)


def test_a_bert_reads_no_prompt(mono):
    found = told(mono, "monot5")
    assert f"{mono}: prompt: the settings have one, and model_type bert reads none" in found


def test_a_config_without_an_architecture_reads_none_either(mono):
    body = json.loads((mono / "config.json").read_text())
    del body["model_type"]
    (mono / "config.json").write_text(json.dumps(body))
    expected = "prompt: the settings have one, and model_type not stated reads none"
    assert f"{mono}: {expected}" in told(mono, "monot5")


def test_the_base_of_an_adapter_with_a_prompt_reads_none_either(mono):
    model = replace(resolve_model(str(mono)), conventions=PRESETS["monot5"])
    with pytest.raises(InputError, match=f"{mono}: prompt: the settings have one, and model_type"):
        layouts_of(model)


def test_a_training_with_drawn_weights_is_refused_before_its_data(t5):
    with pytest.raises(InputError, match="expected settings with a prompt, found some of another"):
        layouts_of(resolve_configuration(str(t5), "monobert"))


def test_a_tokenizer_without_the_answers_is_refused_with_its_pieces(t5):
    settings(t5, MONO | {"answers": ["zebras", "true"]})
    with pytest.raises(InputError, match=rf"{t5}: answers: expected words .* found 'zebras' as"):
        layouts_of(resolve_model(str(t5)))


def test_a_recipes_settings_override_a_preset(t5):
    found = discover(t5, "monot5", settings={"answers": ["no", "yes"], "query_limit": 9})
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
