"""Names of the heads of pre-training in checkpoints of several programs."""

import torch

from raypipe.models.convert.checkpoint import named_as_torch
from raypipe.models.family import FAMILIES

PRETRAINING = FAMILIES["bert"].pretraining
TRANSFORM = "cls.predictions.transform"
CONFIG = {"hidden_size": 4, "vocab_size": 9}


def test_the_heads_names_of_pytorch_and_tensorflow_are_read():
    own = set(PRETRAINING.shapes(CONFIG, next_sentence=True))
    heads = {name for name in own if name.startswith("cls.")}
    names = [*heads, "cls/predictions/other", "bert.pooler.dense.bias", "adam_m"]
    assert PRETRAINING.canonical_names(names) == {name: name for name in heads}
    google = {
        "cls/predictions/output_bias": "cls.predictions.bias",
        "cls/predictions/transform/dense/kernel:0": f"{TRANSFORM}.dense.weight",
        "cls/predictions/transform/dense/bias": f"{TRANSFORM}.dense.bias",
        "cls/predictions/transform/LayerNorm/gamma": f"{TRANSFORM}.LayerNorm.weight",
        "cls/predictions/transform/LayerNorm/beta": f"{TRANSFORM}.LayerNorm.bias",
        "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
        "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    }
    assert {*google.values()} == heads
    kernel = torch.arange(6.0).view(2, 3)
    named = named_as_torch(dict.fromkeys(google, kernel))
    assert [*named] == [*google.values()]
    turned = {name for name, tensor in named.items() if torch.equal(tensor, kernel.T)}
    assert turned == {f"{TRANSFORM}.dense.weight"}


def test_shapes_by_hand():
    words = {f"{TRANSFORM}.dense.weight": (4, 4), f"{TRANSFORM}.dense.bias": (4,),
             f"{TRANSFORM}.LayerNorm.weight": (4,), f"{TRANSFORM}.LayerNorm.bias": (4,),
             "cls.predictions.bias": (9,)}  # fmt: skip
    assert PRETRAINING.shapes(CONFIG, next_sentence=False) == words
    pooler = {"bert.pooler.dense.weight": (4, 4), "bert.pooler.dense.bias": (4,)}
    follows = {"cls.seq_relationship.weight": (2, 4), "cls.seq_relationship.bias": (2,)}
    assert PRETRAINING.shapes(CONFIG, next_sentence=True) == {**words, **pooler, **follows}


def test_a_tensor_that_is_tied_to_another_must_equal_it():
    words, bias = torch.ones(9, 4), torch.zeros(9)
    given = {"embeddings.word_embeddings.weight": words, "cls.predictions.bias": bias}
    same = {"cls.predictions.decoder.weight": words.clone(), "cls.predictions.decoder.bias": bias}
    assert PRETRAINING.untied({**given, **same}) == [] == PRETRAINING.untied(given)
    for name in same:
        (problem,) = PRETRAINING.untied({**given, name: same[name] + 1})
        assert problem == f"{name}: expected the tensor that it is tied to, found another"
