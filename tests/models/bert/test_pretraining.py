"""Names of the heads of pre-training in checkpoints of several programs."""

import torch

from raypipe.models.family import FAMILIES

PRETRAINING = FAMILIES["bert"].pretraining
TRANSFORM = "cls.predictions.transform"
CONFIG = {"hidden_size": 4, "vocab_size": 9}


def test_names_of_pytorch_and_tensorflow_are_the_same_heads():
    own = set(PRETRAINING.shapes(CONFIG, next_sentence=True))
    heads = sorted(name for name in own if name.startswith("cls."))
    assert PRETRAINING.canonical_names(heads).found.keys() == set(heads)
    google = {
        "cls/predictions/output_bias": "cls.predictions.bias",
        "cls/predictions/transform/dense/kernel:0": f"{TRANSFORM}.dense.weight",
        "cls/predictions/transform/dense/bias": f"{TRANSFORM}.dense.bias",
        "cls/predictions/transform/LayerNorm/gamma": f"{TRANSFORM}.LayerNorm.weight",
        "cls/predictions/transform/LayerNorm/beta": f"{TRANSFORM}.LayerNorm.bias",
        "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
        "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    }
    named = PRETRAINING.canonical_names([*google, "cls/predictions/other", "bert/x", "adam_m"])
    assert {place: source.name for place, source in named.found.items()} == {
        place: name for name, place in google.items()
    }
    assert named.found[f"{TRANSFORM}.dense.weight"].transpose
    assert not named.found["cls.seq_relationship.weight"].transpose
    assert named.unused == ["adam_m", "bert/x", "cls/predictions/other"] and not named.twice
    older = [f"{TRANSFORM}.LayerNorm.gamma", f"{TRANSFORM}.LayerNorm.weight"]
    assert PRETRAINING.canonical_names(older).twice == [" and ".join(older)]


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
        assert PRETRAINING.untied({**given, name: same[name] + 1}) == [name]
