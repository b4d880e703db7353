"""T5's families: what they are for, and which tokenizers their prompts can be sliced from."""

import pytest
import transformers
from tiny_t5 import MONO, make_tiny_t5
from tokenizers import pre_tokenizers

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.whole.files import T5_KINDS
from raypipe.stages.texts.tokenize import refuse_other_inputs


def test_it_is_neither_trained_nor_given_inputs_without_a_prompt(tmp_path):
    make_tiny_t5(tmp_path / "m")
    family = family_of({"model_type": "t5"})
    with pytest.raises(InputError, match="it is scored with, and not trained"):
        family.files.trained_names([], head=True)
    tokenizer = open_tokenizer(resolve_model(str(tmp_path / "m")))
    with pytest.raises(InputError, match="expected settings with a prompt.*monot5 or duot5"):
        family.layout(tokenizer, (0, 1))


def test_a_tokenizer_whose_prompts_cannot_be_sliced_is_refused_with_the_text(tmp_path):
    make_tiny_t5(tmp_path / "m")
    model = resolve_model(str(tmp_path / "m"))
    tokenizer = open_tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # each of several spaces is a piece
    refuse_other_inputs(tokenizer, ["zebra", "lease"], model)
    told = rf"{tmp_path / 'm'}: the tokenizer's own pieces of the prompt with 'zebra' are not"
    with pytest.raises(InputError, match=told):
        refuse_other_inputs(tokenizer, ["zebra", "  lease"], model)


def test_every_kind_is_a_family_and_every_value_decides_the_fingerprint(tmp_path):
    assert all(family_of({"model_type": kind}).files.kind == kind for kind in T5_KINDS)
    make_tiny_t5(tmp_path / "m")
    found = resolve_model(str(tmp_path / "m"))
    decisive = found.forward_config()
    assert decisive["transformers"] == transformers.__version__ and decisive["d_kv"] == 8
    settings = found.conventions.to_json()
    assert settings["prompt"] == MONO["prompt"] and [*settings["answers"]] == MONO["answers"]
