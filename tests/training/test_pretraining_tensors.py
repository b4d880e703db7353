"""Where a pre-training begins."""

import pytest
import torch
import transformers
from drawn_models import DISTILBERT, OWN, RENAMED, SIZES
from masked_texts import make_pretrained
from safetensors.torch import load_file

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.training.start import missing_at_start, pretraining_tensors

POOLER = {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
NEXT = {"cls.seq_relationship.weight", "cls.seq_relationship.bias"}


@pytest.fixture
def start(tiny, tmp_path):
    """(config.json, tensors) of a BertForPreTraining."""
    make_pretrained(tiny, tmp_path / "model")
    model = resolve_model(str(tmp_path / "model"))
    return model.config(), load_file(tmp_path / "model" / "model.safetensors")


def tensors(config, checkpoint, *, next_sentence=True, draw_missing=False, seed=0):
    return pretraining_tensors(
        checkpoint, config, next_sentence=next_sentence, draw_missing=draw_missing, seed=seed
    )


def test_everything_of_a_checkpoint_is_trained_or_carried(start):
    config, checkpoint = start
    whole = tensors(config, checkpoint)
    assert set(whole.trained) == set(checkpoint) and not whole.carried
    words = tensors(config, checkpoint, next_sentence=False)
    assert set(words.carried) == POOLER | NEXT
    assert set(words.trained) == set(checkpoint) - POOLER - NEXT
    for name, tensor in {**words.trained, **words.carried}.items():
        assert torch.equal(tensor, checkpoint[name])


@pytest.mark.parametrize("name", ["cls.predictions.bias", "cls.seq_relationship.weight",
                                  "bert.pooler.dense.bias"])  # fmt: skip
def test_what_is_missing_is_named_and_drawn_only_if_asked(start, name):
    config, checkpoint = start
    del checkpoint[name]
    shapes = {each: tuple(tensor.shape) for each, tensor in checkpoint.items()}
    assert missing_at_start(shapes, config, next_sentence=True) == [name]
    needed = "predictions" in name
    assert missing_at_start(shapes, config, next_sentence=False) == [name] * needed
    with pytest.raises(InputError, match=f"lacks the tensor {name}; .*draw_missing"):
        tensors(config, checkpoint)
    drawn = tensors(config, checkpoint, draw_missing=True).trained
    assert drawn[name].shape == tensors(*both(start), draw_missing=True).trained[name].shape
    again = tensors(config, checkpoint, draw_missing=True).trained
    assert all(torch.equal(drawn[each], again[each]) for each in drawn)


def both(start):
    return start[0], start[1]


@pytest.mark.parametrize("kind", RENAMED)
def test_normalisations_begin_with_1_by_whatever_name(kind):
    small = {**(DISTILBERT if kind == "distilbert" else SIZES), **OWN.get(kind, {})}
    config = transformers.AutoConfig.for_model(kind, vocab_size=9, **small)
    theirs = transformers.AutoModelForMaskedLM.from_config(config).state_dict()
    found = tensors(config.to_dict(), None, next_sentence=False).trained
    ones = {name for name, tensor in theirs.items() if (tensor == 1).all()}
    assert ones and {name for name, tensor in found.items() if (tensor == 1).all()} == ones


def test_from_a_configuration_all_is_drawn_by_the_seed_as_in_berts_code(start):
    config, checkpoint = start
    for next_sentence in (True, False):
        found = tensors(config, None, next_sentence=next_sentence, seed=4)
        every = {**found.trained, **found.carried}
        assert set(every) == set(checkpoint) - (set() if next_sentence else NEXT)
        for name, tensor in every.items():
            if "LayerNorm.weight" in name:
                assert (tensor == 1).all()
            elif name.endswith("bias"):
                assert (tensor == 0).all()
            else:
                assert tensor.std() == pytest.approx(0.02, rel=0.35), name
    again = tensors(config, None, next_sentence=False, seed=4)
    other = tensors(config, None, next_sentence=False, seed=5)
    name = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(again.trained[name], found.trained[name])
    assert not torch.equal(other.trained[name], found.trained[name])


def test_a_decoder_of_its_own_and_another_shape_are_refused(start):
    config, checkpoint = start
    words = checkpoint["bert.embeddings.word_embeddings.weight"]
    tied = {**checkpoint, "cls.predictions.decoder.weight": words.clone()}
    assert set(tensors(config, tied).trained) == set(checkpoint)
    own = {**checkpoint, "cls.predictions.decoder.weight": words + 1}
    with pytest.raises(InputError, match="decoder.weight: expected the tensor that it is tied to"):
        tensors(config, own)
    other = {**checkpoint, "cls.predictions.bias": torch.zeros(5)}
    with pytest.raises(InputError, match=r"cls.predictions.bias: expected shape \[66\], found \[5"):
        tensors(config, other)
