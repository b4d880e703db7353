"""Families other than BERT's have no heads of pre-training."""

import pytest
import torch

from raypipe.errors import InputError
from raypipe.models.family import FAMILIES


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES if kind != "bert"])
def test_a_pre_training_is_refused(kind):
    heads = FAMILIES[kind].pretraining
    assert heads.canonical_names(["b", "a"]).unused == ["a", "b"] and heads.untied({}) == []
    refused = [
        lambda: heads.shapes({}, next_sentence=True),
        lambda: heads.words({}, torch.zeros(1), 0.1),
        lambda: heads.follows({}, torch.zeros(1)),
        lambda: heads.architecture(next_sentence=False),
    ]
    for call in refused:
        with pytest.raises(InputError, match=f"expected a model_type bert, found {kind}"):
            call()
