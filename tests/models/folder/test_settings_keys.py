"""raypipe.json and the other settings of a model folder: whatever they hold, one clear error."""

import json
import os

import pytest
import tiny
from json_files import write

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.folder import files
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.folder.settings import MAX_CHARACTERS

ENCODER = {
    "pooling": "mean, cls, max, last, splade or splade-log1p",
    "normalise": "true or false",
    "query_segment": "a segment id, from 0",
    "passage_segment": "a segment id, from 0",
    "query_limit": "a count of word pieces",
    "passage_limit": "a count of word pieces",
}
MONO = {
    "query_limit": "a count of word pieces or null",
    "passage_limit": "a count of word pieces or null",
    "total_limit": "a count of tokens",
    "relevant_label": "0, 1 or null",
    "score": "log-probability, probability or raw",
}
ODD = (None, True, -1, 10**30, 1e400, float("nan"), "x", "", [1], [[]], {"a": 1}, "long" * 30_000)


@pytest.fixture
def mono(tmp_path):
    return tiny.make_tiny_reranker(tmp_path / "mono")


def settings(folder, **changes):
    body = json.loads((folder / "raypipe.json").read_text()) | changes
    write(folder / "raypipe.json", {k: v for k, v in body.items() if v is not ...})


def problems(folder):
    with pytest.raises(InputError) as raised:
        resolve_model(str(folder))
    assert set(raised.value.problems) <= set(describe(str(folder), None).problems)
    return raised.value.problems


@pytest.mark.parametrize("gone", ENCODER)
def test_an_encoders_missing_key_is_named_with_what_it_holds_and_where_that_is_told(encoder, gone):
    settings(encoder, **{gone: ...})
    (problem,) = problems(encoder)
    assert problem.startswith(
        f"{encoder / 'raypipe.json'}: {gone}: expected {ENCODER[gone]}, found"
    )
    assert "docs/models.md" in problem


def test_all_missing_keys_of_a_reranker_are_named_at_once(mono):
    write(
        mono / "config.json", json.loads((mono / "config.json").read_text()) | {"architectures": []}
    )
    settings(mono, **dict.fromkeys(MONO, ...))
    assert [p.split("; ")[0].split(": ")[1:] for p in problems(mono)] == [
        [name, f"expected {expected}, found nothing"] for name, expected in MONO.items()
    ]


def test_an_unknown_key_is_named_with_the_nearest(encoder):
    settings(encoder, poling="mean", pooling=...)
    missing, unknown = problems(encoder)
    assert (
        "pooling: expected mean, cls, max, last, splade or splade-log1p, found nothing" in missing
    )
    assert "poling: did you mean pooling? expected a JSON object with kind, pooling" in unknown


@pytest.mark.parametrize("side", ["query", "passage"])
def test_a_prefix_has_a_limit_that_the_error_names(encoder, side):
    settings(encoder, **{f"{side}_prefix": "a" * MAX_CHARACTERS})
    assert resolve_model(str(encoder)).conventions.prefix(side)
    settings(encoder, **{f"{side}_prefix": "a " * 5_000_000})
    (problem,) = problems(encoder)
    assert problem.endswith(f"{side}_prefix: expected at most 10,000 characters, found 10,000,000")


@pytest.mark.parametrize(
    ("name", "value"),
    [("normalise", "yes"), ("query_segment", "x"), ("passage_segment", -1), ("query_prefix", 3),
     ("start_weights_saw", [1]), ("query_segment", True), ("query_limit", "20")],
)  # fmt: skip
def test_a_value_of_another_type_is_named(encoder, name, value):
    settings(encoder, **{name: value})
    (problem,) = problems(encoder)
    assert f"raypipe.json: {name}: expected " in problem and repr(value) in problem


@pytest.mark.parametrize("value", [1, "yes", None])
def test_the_first_tokenizer_is_a_flag(mono, value):
    settings(mono, first_tokenizer=value)
    (problem,) = problems(mono)
    assert "raypipe.json: first_tokenizer: expected true or false" in problem


@pytest.mark.parametrize("labels", [100_001, 0, "x"])
def test_a_number_of_labels_that_is_none_is_refused_before_a_name_is_made_for_each(mono, labels):
    (mono / "raypipe.json").unlink()
    config = json.loads((mono / "config.json").read_text())
    write(mono / "config.json", {**config, "num_labels": labels})
    (problem,) = problems(mono)
    assert f"config.json: num_labels: expected a count of units, found {labels!r}" in problem
    with pytest.raises(InputError, match="config.json: num_labels: expected a count of units"):
        resolve_model(str(mono), "monobert")


@pytest.mark.slow
@pytest.mark.fault(
    36, "odd values in every key of a model folder: over 100 are refused, 0 tracebacks"
)
def test_odd_values_in_any_settings_file_are_input_errors_or_taken(encoder, tmp_path):
    """Each key of each file takes each odd value, alone; nothing but InputError may come."""
    write(encoder / "modules.json", [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": "sentence_transformers.models.Pooling", "path": "pool"},
    ])  # fmt: skip
    (encoder / "pool").mkdir()
    pooling = {"pooling_mode": "mean", "include_prompt": True, "pooling_mode_mean_tokens": True}
    write(encoder / "pool" / "config.json", pooling)
    more = {"max_seq_length": 32, "do_lower_case": False}
    prompts = {"prompts": {"query": "q"}, "default_prompt_name": None, "similarity_fn_name": "dot"}
    (encoder / "raypipe.json").unlink()
    mono = tiny.make_tiny_reranker(tmp_path / "mono", units=1)
    labels = {"num_labels": 1, "id2label": {"0": "a"}, "sentence_transformers": {}}
    write(mono / "config.json", json.loads((mono / "config.json").read_text()) | labels)
    for folder in (encoder, mono):
        write(folder / "sentence_bert_config.json", more)
        write(
            folder / "config_sentence_transformers.json",
            prompts | {"activation_fn": "torch.nn.Sigmoid"},
        )
        write(folder / "tokenizer_config.json", {"model_max_length": 40})
    settings(mono, score=..., relevant_label=...)
    tried = refused = 0
    for folder in (encoder, mono):
        resolve_model(str(folder))
        for path in sorted(folder.rglob("*.json")):
            if path.name == "tokenizer.json":
                continue
            good = path.read_text()
            body = json.loads(good)
            objects = [body] if isinstance(body, dict) else body
            for each in objects:
                for key in list(each):
                    kept = each[key]
                    for value in ODD:
                        each[key] = value
                        path.write_text(json.dumps(body))
                        tried += 1
                        try:
                            resolve_model(str(folder))
                        except InputError:
                            refused += 1
                    each[key] = kept
            path.write_text(good)
    assert refused > 100 and tried - refused > 100


@pytest.mark.fault(
    36, "pipes, devices and folders in the place of 4 files of a model are refused unread"
)
@pytest.mark.parametrize(
    "name", ["config.json", "raypipe.json", "tokenizer.json", "model.safetensors"]
)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_named_and_not_read(encoder, name, kind):
    path = encoder / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(InputError, match=rf"{path}: expected a .*, found a {kind}"):
        resolve_model(str(encoder))
    assert any(f"{path}: expected" in problem for problem in describe(str(encoder), None).problems)


def test_json_has_a_limit_that_the_error_names(encoder, monkeypatch):
    monkeypatch.setattr(files, "MAX_JSON_BYTES", 5000)
    (encoder / "raypipe.json").write_text("[" + "[]," * 2000 + "[]]")
    with pytest.raises(InputError, match=r"raypipe\.json: expected JSON of at most 5,000 bytes"):
        resolve_model(str(encoder))
