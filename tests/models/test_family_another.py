"""A second family, as one would be added: RoBERTa with BERT's layers and inputs of its own.

Two separators, one segment, positions from 2; encoding, scoring and training know nothing of it.
"""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import RobertaConfig, RobertaModel

from raypipe.errors import InputError
from raypipe.models import family
from raypipe.models.bert.family import BertFamily
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import resolve_model
from raypipe.models.folder.opening import layouts_of, load_weights, open_tokenizer
from raypipe.models.scorer import load_scorer
from raypipe.stages.texts.tokenize import refuse_other_inputs
from raypipe.text.inputs import Layout, by_length, make_inputs
from raypipe.text.pairs import TextSlice
from raypipe.text.tokenize import tokenize_batch
from raypipe.training.model.starting_tensors import starting_tensors
from raypipe.training.model.trainee import Trainee

POSITIONS = 40
TEXTS = ["w1 w2 w3", "", "w4", "w5 w6 w7 w8 w9 w1 w2 w3 w4 w5 w6 w7", "w9 w8"]
ENCODER = {"kind": "encoder", "pooling": "mean", "normalise": False, "query_segment": 0,
           "passage_segment": 0, "query_limit": 3, "passage_limit": POSITIONS - 2 - 2}  # fmt: skip
MONO = {"kind": "mono", "query_limit": 3, "passage_limit": None, "total_limit": 12,
        "relevant_label": 1, "score": "raw"}  # fmt: skip


class Roberta(BertFamily):
    """Its layers and their names are BERT's."""

    def read(self, weights, config, *, updates=None):
        return super().read(weights, {**config, "model_type": "bert"}, updates=updates)

    def layout(self, tokenizer, segments):
        first, last = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
        return Layout(first, (last, last), last, (0,) * len(segments), first_position=2)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(family, "FAMILIES", {**family.FAMILIES, "roberta": Roberta()})


@pytest.fixture(scope="module")
def theirs():
    torch.manual_seed(5)
    config = RobertaConfig(
        vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=POSITIONS, type_vocab_size=1,
        layer_norm_eps=1e-5,
    )  # fmt: skip
    return RobertaModel(config).eval()


@pytest.fixture
def folder(tmp_path, theirs):
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2} | {f"w{n}": n + 3 for n in range(10)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B:0 </s>:0",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    theirs.config.save_pretrained(tmp_path)
    tensors = theirs.state_dict() | head()
    save_file({n: t.contiguous() for n, t in tensors.items()}, tmp_path / "model.safetensors")
    return tmp_path


def head():
    generator = torch.Generator().manual_seed(1)
    return {
        "classifier.weight": torch.randn(2, 32, generator=generator),
        "classifier.bias": torch.randn(2, generator=generator),
    }


def opened(folder, **conventions):
    (folder / "raypipe.json").write_text(json.dumps(conventions))
    return resolve_model(str(folder))


def texts_of(model, texts):
    flat, offsets = tokenize_batch(open_tokenizer(model), texts, max_pieces=512)
    return TextSlice(flat, offsets[:-1], np.diff(offsets))


def states(theirs, *ids):
    """transformers' own hidden states of one input."""
    with torch.no_grad():
        return theirs(torch.tensor([ids])).last_hidden_state[0]


def pieces_of(text, limit):
    return [int(word[1:]) + 3 for word in text.split()][:limit]


def test_vectors_are_those_of_transformers(folder, theirs):
    model = opened(folder, **ENCODER)
    texts = texts_of(model, TEXTS)
    offsets = np.append(texts.starts, len(texts.flat))
    for side, limit in (("query", 3), ("passage", 36)):
        found = load_encoder(model).encode(texts.flat, offsets, side=side)
        expected = [states(theirs, 0, *pieces_of(t, limit), 2).mean(dim=0) for t in TEXTS]
        np.testing.assert_allclose(found, torch.stack(expected), atol=1e-5)


def scored(theirs, query, passage):
    first = states(theirs, 0, *query, 2, 2, *passage, 2)[0]
    own, last = theirs.pooler.dense, head()
    pooled = torch.tanh(own.weight @ first + own.bias)
    return (last["classifier.weight"] @ pooled + last["classifier.bias"])[1]


@pytest.mark.parametrize(("total", "room"), [(12, 8), (30, 26)])
def test_scores_are_those_of_transformers_and_limits_count_four_specials(
    folder, theirs, total, room
):
    model = opened(folder, **{**MONO, "total_limit": total})
    query, passage = texts_of(model, TEXTS), texts_of(model, TEXTS[::-1])
    found = load_scorer(model).score(query, [passage])
    expected = []
    for first, second in zip(TEXTS, TEXTS[::-1], strict=True):
        kept = pieces_of(first, 3)
        with torch.no_grad():
            expected.append(scored(theirs, kept, pieces_of(second, room - len(kept))))
    np.testing.assert_allclose(found, torch.stack(expected), atol=1e-5)


def test_a_training_sees_the_same_vectors(folder, theirs):
    model = opened(folder, **ENCODER)
    layouts, texts = layouts_of(model), texts_of(model, TEXTS)
    tensors = starting_tensors(
        load_weights(model), model.config(), model.conventions, num_units=2, seed=0
    )
    trainee = Trainee(tensors, model.config(), model.conventions)
    inputs, order = by_length([make_inputs([texts], layouts["passage"])])
    with trainee.measuring():
        found = trainee.vectors(inputs).numpy()[np.argsort(order)]
    expected = [states(theirs, 0, *pieces_of(t, 36), 2).mean(dim=0) for t in TEXTS]
    np.testing.assert_allclose(found, torch.stack(expected), atol=1e-5)


def test_positions_that_no_token_has_are_not_counted(folder):
    """40 rows, the first two for no token."""
    load_encoder(opened(folder, **ENCODER))
    with pytest.raises(InputError, match="allow 39 tokens, the model has 38 positions"):
        load_encoder(opened(folder, **{**ENCODER, "passage_limit": 37}))
    load_scorer(opened(folder, **{**MONO, "total_limit": 38}))
    with pytest.raises(InputError, match="allow 39 tokens, the model has 38 positions"):
        load_scorer(opened(folder, **{**MONO, "total_limit": 39}))


@pytest.mark.parametrize("conventions", [ENCODER, MONO])
def test_its_tokenizers_own_inputs_are_compared_with_its_layout(folder, conventions):
    model = opened(folder, **conventions)
    refuse_other_inputs(open_tokenizer(model), TEXTS, model)
    spoilt = open_tokenizer(model)
    spoilt.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    with pytest.raises(InputError, match="own input for 'w1 w2 w3' is not <s> pieces </s>"):
        refuse_other_inputs(spoilt, TEXTS, model)


def test_without_the_family_the_folder_is_refused(folder, monkeypatch):
    opened(folder, **ENCODER)
    monkeypatch.undo()
    with pytest.raises(InputError, match="model_type: expected bert.* found 'roberta'"):
        resolve_model(str(folder))
