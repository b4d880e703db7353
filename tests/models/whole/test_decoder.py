"""Decoders as encoders: the numbers of sentence-transformers, which pads on the left."""

import json

import numpy as np
import pytest
from drawn_models import ENCODER, MONO, POSITIONS, TEXTS, make, opened
from peer_encoders import apart, ours, peer
from tokenizers import processors

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.encoder import load_encoder
from raypipe.models.family import family_of
from raypipe.models.folder.discover import discover
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.whole.family import DECODERS
from raypipe.text.inputs import Layout

PROMPTS = {"query": "Instruct: find passages that answer the query\nQuery:", "document": ""}
LAST = ENCODER | {"pooling": "last"}


@pytest.mark.parametrize("kind", DECODERS)
def test_last_tokens_of_every_length_are_those_of_a_batch_padded_on_the_left(tmp_path, kind):
    theirs = peer(tmp_path, kind, "lasttoken", prompts=PROMPTS)
    theirs.tokenizer.padding_side = "left"
    assert theirs.max_seq_length == POSITIONS
    for side, encode in (("query", theirs.encode_query), ("passage", theirs.encode_document)):
        found, model = ours(tmp_path, TEXTS, side)
        assert apart(found, encode(TEXTS, batch_size=4)) < 1e-5
        room = POSITIONS - (1 if kind.startswith("qwen") else 2)
        assert model.encoder.limit(side) == room and model.encoder.pooling == "last"
    assert model.encoder.query_prefix == PROMPTS["query"] and model.encoder.passage_prefix == ""


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_other_poolings_of_a_decoder(tmp_path, pooling):
    theirs = peer(tmp_path, "gemma3_text", pooling)
    assert apart(ours(tmp_path, TEXTS)[0], theirs.encode(TEXTS)) < 1e-5


def test_the_layout_has_the_tokens_that_the_tokenizer_puts_around_a_text(tmp_path):
    tokens = open_tokenizer(opened_as(tmp_path, "qwen3"))
    family = family_of({"model_type": "qwen3"})
    assert family.layout(tokens, (0,)) == Layout(None, (), 2, (0,), has_segments=False)
    before = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tokens.post_processor = before
    assert family.layout(tokens, (0,)) == Layout(0, (), None, (0,), has_segments=False)
    tokens.post_processor = processors.TemplateProcessing("$A")
    with pytest.raises(InputError, match="adds no special token .* post_processor"):
        family.layout(tokens, (0,))
    tokens.post_processor = processors.TemplateProcessing(
        "$A </s> </s>", special_tokens=[("</s>", 2)]
    )
    with pytest.raises(InputError, match="more than one special token before or after"):
        family.layout(tokens, (0,))


def opened_as(folder, kind, **conventions):
    make(folder, kind)
    return opened(folder, **LAST | conventions)


def test_an_empty_text_is_its_special_token_alone(tmp_path):
    model = opened_as(tmp_path, "qwen3", passage_limit=POSITIONS - 1)
    found = load_encoder(model).encode(np.empty(0, np.uint16), np.zeros(2, np.int64), side="query")
    assert found.shape == (1, 32) and np.isfinite(found).all()


def test_the_limit_ends_at_the_last_position_with_one_special_token(tmp_path):
    load_encoder(opened_as(tmp_path, "qwen3", passage_limit=POSITIONS - 1))
    with pytest.raises(
        InputError, match=f"allow {POSITIONS + 1} tokens, the model has {POSITIONS}"
    ):
        load_encoder(opened(tmp_path, **LAST | {"passage_limit": POSITIONS}))


def test_a_folder_that_does_not_say_that_it_encodes_is_refused(tmp_path):
    make(tmp_path, "qwen3")
    with pytest.raises(InputError, match="nothing says that its states are embeddings.*Reranker"):
        resolve_model(str(tmp_path))


def test_a_decoder_is_no_reranker(tmp_path):
    from raypipe.driver.models import unfit

    make(tmp_path, "qwen3")
    (problem,) = unfit(opened(tmp_path, **MONO))
    assert problem.endswith(
        "model_type qwen3: a decoder encodes texts here, and scores no pairs; name an encoder or "
        "another reranker"
    )
    family = family_of({"model_type": "qwen3"})
    with pytest.raises(InputError, match="scores no pairs"):
        family.head({}, {}, relevant_label=None)
    with pytest.raises(InputError, match="scores no pairs"):
        family.layout(open_tokenizer(opened(tmp_path, **LAST)), (0, 1))
    config = {"model_type": "qwen3", "architectures": ["Qwen3ForSequenceClassification"]}
    (told,) = family_of(config).files.config_problems(config)
    assert told.startswith("architectures: found Qwen3ForSequenceClassification: a decoder")
    with pytest.raises(InputError, match="transformers computes: it is encoded with, and not tr"):
        family_of(config).files.trained_names([], head=False)


@pytest.mark.parametrize("kind", DECODERS)
def test_model_show_has_its_sizes_and_no_problem(tmp_path, kind):
    make(tmp_path, kind)
    (tmp_path / "raypipe.json").write_text(json.dumps(LAST))
    found = describe(str(tmp_path), None)
    assert found.problems == [] == found.missing and found.architecture["hidden"] == 32


def test_modules_that_score_are_refused_by_name(tmp_path):
    peer(tmp_path, "qwen3", "lasttoken")
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[1]["type"] = "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match="expected Transformer, Pooling.*found .*LogitScore"):
        discover(tmp_path, None)
