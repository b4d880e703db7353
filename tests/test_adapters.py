"""The rerankers that come with raypipe: small, readable, and strangers to the quickstart."""

import json

import numpy as np
import pytest
from safetensors import safe_open

from raypipe.models.folder.adapters import SHIPPED, WEIGHTS, shipped_folder
from raypipe.models.folder.model_folder import measurements, open_tokenizer, resolve_model
from raypipe.models.load import load_scorer
from raypipe.text.inputs import TextSlice
from raypipe.text.tokenize import tokenize_batch
from raypipe.training.export import FILE, passage_hashes

INPUTS = {"minilm-mono": 100_000, "minilm-duo": 100_000, "general-mono": 6_784}


def part_of(model, texts):
    flat, offsets = tokenize_batch(open_tokenizer(model), texts, max_pieces=512)
    return TextSlice(flat, offsets[:-1], np.diff(offsets))


@pytest.mark.parametrize("name", SHIPPED)
def test_an_adapter_is_small_and_names_its_base_and_its_training(name):
    folder = shipped_folder(name)
    assert (folder / WEIGHTS).stat().st_size <= (
        3_000_000 if name.startswith("general") else 1_000_000
    )
    told = json.loads((folder / "raypipe.json").read_text())
    assert told["base"] == "minilm"
    made = told["made_by"]
    assert made["recipe"] == name
    # Inputs: two an example, or lists of eight; general-mono's first phase is told by its recipe.
    assert made["step"] * made["batch"] * (8 if name.startswith("general") else 2) >= INPUTS[name]
    assert "docs" in told["start_weights_saw"]
    with safe_open(folder / WEIGHTS, framework="numpy") as file:
        assert all(np.isfinite(file.get_tensor(key)).all() for key in file.keys())  # noqa: SIM118


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_the_quickstarts_passages_were_not_trained_on(name, standard_docs):
    model = resolve_model(name)
    passages = [text for _, text in standard_docs.passages]
    trained = np.load(shipped_folder(name) / FILE)
    assert len(passages) > 5_000 and len(trained) > 10_000
    seen = np.isin(passage_hashes(part_of(model, passages)), trained)
    # Another Python's documentation may have a sentence that a package took over: of 3.11.2,
    # `typing.Concatenate` has the words of `typing_extensions`. So one, and not a share.
    assert int(seen.sum()) <= 1
    again = passage_hashes(part_of(model, [passages[0], passages[0].upper()]))
    assert again[0] == again[1]  # so that case hides no passage


def test_the_mono_prefers_the_passage_that_answers():
    model = resolve_model("minilm-mono")
    scorer = load_scorer(model)
    query = "collections ordered dict move to end"
    passages = [
        "Move an existing element to the end (or beginning if last is false).",
        "Return the arc cosine (measured in radians) of x. The result is between 0 and pi.",
    ]
    queries = part_of(model, [query] * 2)
    scores = scorer.score(queries, [part_of(model, passages)])
    assert scores[0] > scores[1]


@pytest.mark.parametrize("name", SHIPPED)
def test_score_says_where_an_adapter_was_measured(name, tmp_path, capsys):
    from raypipe.cli.main import run

    told = measurements(resolve_model(name))
    assert "Python's documentation +0." in told and "TREC DL 2021" in told
    assert "docs/models.md" in told
    files = {flag: tmp_path / flag for flag in ("run", "collection", "queries")}
    for file in files.values():
        file.write_text("x")
    options = [part for flag, file in files.items() for part in (f"--{flag}", str(file))]
    status = run(["score", *options, "--model", name, "--out", str(tmp_path / "out")])[0]
    assert status == 2 and f"{name}: {told}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_without_such_measurements_says_nothing(tiny_mono, tmp_path):
    assert measurements(resolve_model(str(tiny_mono))) is None
    assert measurements(resolve_model("minilm")) is None
