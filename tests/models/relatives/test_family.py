"""RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT and ModernBERT give transformers' own numbers."""

from dataclasses import asdict, replace

import pytest
import torch
import transformers
from drawn_models import (
    ENCODER,
    MONO,
    TEXTS,
    make,
    opened,
    tokenizer_of,
)
from drawn_models import PACKED as KINDS
from model_parts import DUO
from safetensors.torch import save_file
from stage_inputs import parts_of
from tokenizers import processors

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.family import family_of
from raypipe.models.folder.model_folder import layouts_of, load_weights, open_tokenizer
from raypipe.models.load import load_scorer
from raypipe.stages.in_memory import encode_texts
from raypipe.stages.tokenize import refuse_other_inputs
from raypipe.text.inputs import make_inputs
from raypipe.training.export import merged
from raypipe.training.start import starting_tensors
from raypipe.training.trainee import LowRank, Trainee

SHORT = [TEXTS[2], TEXTS[4]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_has_the_same_bytes_alone_and_among_others(tmp_path, kind):
    make(tmp_path, kind)
    model = opened(tmp_path, **ENCODER)
    together = encode_texts(model, TEXTS, side="passage", device="cpu")
    for text, vector in zip(TEXTS, together, strict=True):
        alone = encode_texts(model, [text], side="passage", device="cpu")
        assert alone[0].tobytes() == vector.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_its_tokenizers_own_inputs_are_compared_with_its_layout(tmp_path, kind):
    make(tmp_path, kind)
    model = opened(tmp_path, **ENCODER)
    spoilt = open_tokenizer(model)
    last = model.family.files.specials[1]
    spoilt.post_processor = processors.TemplateProcessing(
        single=f"$A {last}", special_tokens=[(last, spoilt.token_to_id(last))]
    )
    with pytest.raises(InputError, match="own input for 'The lease of a shard"):
        refuse_other_inputs(spoilt, TEXTS, model)


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_sees_the_same_units_and_gradients_as_transformers(tmp_path, kind):
    theirs = make(tmp_path, kind, units=2)
    model = opened(tmp_path, **MONO)
    tensors = starting_tensors(
        load_weights(model), model.config(), model.conventions, num_units=2, seed=0
    )
    trainee = Trainee(tensors, model.config(), model.conventions, dropout=0.0)
    pair = parts_of(model, SHORT[:1], SHORT[1:])
    trainee.units(make_inputs(pair, layouts_of(model)["pair"])).sum().backward()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    theirs(**tokenizer(SHORT[:1], SHORT[1:], return_tensors="pt")).logits.sum().backward()
    expected = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    found = {name: p.grad for name, p in trainee.weights.items() if p.grad is not None}
    assert set(found) == set(expected)
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_low_rank_updates_are_pefts(tmp_path, kind):
    """One step's worth of random updates, merged by peft and computed here as they are."""
    make(tmp_path, kind, units=2)
    model = opened(tmp_path, **MONO)
    low_rank = LowRank(rank=4, alpha=8)
    tensors = starting_tensors(
        load_weights(model), model.config(), model.conventions, num_units=2, seed=0
    )
    trainee = Trainee(tensors, model.config(), model.conventions, low_rank=low_rank, seed=1)
    layers = {name.rpartition(".lora_")[0] for name in trainee.weights if ".lora_" in name}
    assert len(layers) == 2 * (4 if kind == "modernbert" else 6) + 1
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, tensor in trainee.weights.items():
            if ".lora_B." in name:
                tensor += torch.randn(tensor.shape, generator=generator) * 0.2
    pair = parts_of(model, SHORT[:1], SHORT[1:])
    with trainee.measuring():
        found = trainee.units(make_inputs(pair, layouts_of(model)["pair"]))
    whole = merged(tensors, {n: t.detach() for n, t in trainee.weights.items()}, low_rank)
    save_file({n: t.contiguous() for n, t in whole.items()}, tmp_path / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip
    opened_by_them = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    with torch.no_grad():
        expected = opened_by_them.eval()(**tokenizer(SHORT[:1], SHORT[1:], return_tensors="pt"))
    torch.testing.assert_close(found, expected.logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", [None, "zero"])
def test_a_duobert_cannot_be_or_start_from_a_model_without_segments(tmp_path, kind, row):
    make(tmp_path, kind, units=2)
    model = opened(tmp_path, **asdict(replace(DUO, segment_row=row)))
    with pytest.raises(InputError, match="a duoBERT model has three segments.*; name a BERT"):
        starting_tensors(load_weights(model), model.config(), model.reranker, num_units=2, seed=0)
    with pytest.raises(InputError, match="a duoBERT model has three segments.*; name a BERT"):
        load_scorer(model)
    assert "a duoBERT model has three segments" in describe(str(tmp_path), None).problems[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_without_its_special_tokens_makes_no_layout(kind):
    family = family_of({"model_type": kind})
    other = "roberta" if kind in ("distilbert", "modernbert") else "distilbert"
    first, last, _ = family.files.specials
    with pytest.raises(InputError, match="the tokenizer has no ") as caught:
        family.layout(tokenizer_of(other).backend_tokenizer, (0,))
    assert first in str(caught.value) and last in str(caught.value)
