"""Scores of T5 rerankers are those of transformers' own forward pass on the tokenizer's own ids."""

import json

import numpy as np
import pytest
import torch
from stage_inputs import parts_of
from tiny_t5 import DUO, TEXTS, make_tiny_t5, their_logits, theirs

from raypipe.driver.models import unfit
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_scorer
from raypipe.stages.texts.tokenize import refuse_other_inputs
from raypipe.text.inputs import taken

VERSIONS = [("t5", "1.0"), ("t5", "1.1"), ("mt5", "1.0")]


def cut(opened, text, most):
    """The text of which the tokenizer makes at most so many pieces."""
    tokenizer = opened[1]
    pieces = tokenizer(text, add_special_tokens=False).input_ids
    return text if len(pieces) <= most else " ".join(text.split()[:most])


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_scores_of_one_passage_are_those_of_transformers(tmp_path, kind, version):
    make_tiny_t5(tmp_path / "m", family=kind, version=version)
    model, opened = resolve_model(str(tmp_path / "m")), theirs(tmp_path / "m")
    assert unfit(model) == []
    refuse_other_inputs(open_tokenizer(model), TEXTS, model)
    (texts,) = parts_of(model, TEXTS)
    size = len(TEXTS)
    queries, passages = np.divmod(np.arange(size * size), size)
    found = load_scorer(model).score(taken(texts, queries), [taken(texts, passages)])
    assert len(set(np.round(found, 4).tolist())) > 40, "the scores tell the inputs apart"
    for score, query, passage in zip(found, queries, passages, strict=True):
        asked = cut(opened, TEXTS[query], 12)
        room = 48 - 16 - len(opened[1](asked, add_special_tokens=False).input_ids)
        prompt = f"Query: {asked} Document: {cut(opened, TEXTS[passage], room)} Relevant:"
        assert len(opened[1](prompt).input_ids) <= 48
        expected = torch.log_softmax(their_logits(opened, prompt), 0)[1]
        assert score == pytest.approx(float(expected), abs=1e-5, rel=1e-5)


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_probabilities_of_two_passages_are_those_of_transformers(tmp_path, kind, version):
    make_tiny_t5(tmp_path / "m", family=kind, version=version, **DUO)
    model, opened = resolve_model(str(tmp_path / "m")), theirs(tmp_path / "m")
    assert unfit(model) == []
    refuse_other_inputs(open_tokenizer(model), TEXTS, model)
    rows = [(TEXTS[i % 8], TEXTS[i // 8 % 8], TEXTS[(i * 3 + 1) % 8]) for i in range(64)]
    query, *passages = parts_of(model, *map(list, zip(*rows, strict=True)))
    found = load_scorer(model).score(query, passages)
    assert len(set(np.round(found, 5).tolist())) > 40
    for score, (asked, *pair) in zip(found, rows, strict=True):
        asked = cut(opened, asked, 12)
        share = (64 - 18 - len(opened[1](asked, add_special_tokens=False).input_ids)) // 2
        first, second = (cut(opened, text, share) for text in pair)
        prompt = f"Query: {asked} Document0: {first} Document1: {second} Relevant:"
        assert len(opened[1](prompt).input_ids) <= 64
        expected = torch.softmax(their_logits(opened, prompt), 0)[1]
        assert score == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"score": "raw"}, lambda logits: logits[1]),
        ({"score": "raw", "relevant_label": 0}, lambda logits: logits[0]),
        ({"score": "probability"}, lambda logits: torch.softmax(logits, 0)[1]),
        ({"answers": ["true", "false"]}, lambda logits: torch.log_softmax(logits, 0)[0]),
    ],
)
def test_the_settings_say_which_unit_is_relevant_and_on_which_scale(tmp_path, settings, expected):
    make_tiny_t5(tmp_path / "m", **settings)
    model = resolve_model(str(tmp_path / "m"))
    query, passage = parts_of(model, ["the lease"], ["a zebra"])
    (found,) = load_scorer(model).score(query, [passage])
    prompt = "Query: the lease Document: a zebra Relevant:"
    logits = their_logits(theirs(tmp_path / "m"), prompt)
    assert found == pytest.approx(float(expected(logits)), abs=1e-5, rel=1e-5)


def test_models_of_other_words_answer_with_them(tmp_path):
    make_tiny_t5(tmp_path / "m", family="mt5")
    model = resolve_model(str(tmp_path / "m"), "monot5-mmarco")
    query, passage = parts_of(model, ["the lease"], ["a zebra"])
    (found,) = load_scorer(model).score(query, [passage])
    prompt = "Query: the lease Document: a zebra Relevant:"
    logits = their_logits(theirs(tmp_path / "m"), prompt, ("no", "yes"))
    assert found == pytest.approx(float(torch.log_softmax(logits, 0)[1]), abs=1e-5)


@pytest.mark.parametrize("start", [None, 0, 7])
def test_the_decoder_begins_with_the_token_that_config_json_names(tmp_path, start):
    make_tiny_t5(tmp_path / "m")
    body = json.loads((tmp_path / "m" / "config.json").read_text())
    (tmp_path / "m" / "config.json").write_text(
        json.dumps(body | {"decoder_start_token_id": start})
    )
    model = resolve_model(str(tmp_path / "m"), settings={"score": "raw"})
    query, passage = parts_of(model, ["the lease"], ["a zebra"])
    (found,) = load_scorer(model).score(query, [passage])
    module, tokenizer = theirs(tmp_path / "m")
    ids = torch.tensor([tokenizer("Query: the lease Document: a zebra Relevant:").input_ids])
    begin = torch.full((1, 1), start or 0)
    with torch.inference_mode():
        logits = module(input_ids=ids, decoder_input_ids=begin).logits[0, 0]
    assert found == pytest.approx(float(logits[tokenizer("true").input_ids[0]]), abs=1e-4)


def test_a_row_has_its_bits_whatever_stands_beside_it_where_that_is_proven(tmp_path):
    make_tiny_t5(tmp_path / "m")
    scorer = load_scorer(resolve_model(str(tmp_path / "m")))
    query, passage = parts_of(resolve_model(str(tmp_path / "m")), TEXTS, TEXTS[::-1])
    whole = scorer.score(query, [passage])
    for budget in (1, 60, 200):
        found = scorer.score(query, [passage], budget_tokens=budget)
        np.testing.assert_allclose(found, whole, atol=1e-5, rtol=1e-5)
        assert "unproven" in scorer.numerics or np.array_equal(found, whole)


def test_low_precision_is_near_and_its_class_says_so(tmp_path):
    make_tiny_t5(tmp_path / "m")
    model = resolve_model(str(tmp_path / "m"), settings={"score": "probability"})
    query, passage = parts_of(model, TEXTS, TEXTS[::-1])
    exact = load_scorer(model).score(query, [passage])
    low = load_scorer(model.in_precision("bf16"))
    found = low.score(query, [passage])
    assert ", bf16" in low.numerics and not np.array_equal(found, exact)
    np.testing.assert_allclose(found, exact, atol=0.15)


def test_two_models_are_open_beside_each_other_with_their_own_answers(tmp_path):
    make_tiny_t5(tmp_path / "m")
    first, other = (
        resolve_model(str(tmp_path / "m"), settings={"answers": words, "score": "raw"})
        for words in (["false", "true"], ["no", "yes"])
    )
    query, passage = parts_of(first, ["the lease"], ["a zebra"])
    both = [load_scorer(model) for model in (first, other)]
    scores = [scorer.score(query, [passage])[0] for scorer in both]
    opened, prompt = theirs(tmp_path / "m"), "Query: the lease Document: a zebra Relevant:"
    expected = their_logits(opened, prompt, ("true", "yes")).tolist()
    assert scores == pytest.approx(expected, abs=1e-4)
