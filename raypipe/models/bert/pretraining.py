"""BERT's two heads of pre-training: the masked words, and whether B follows A.

Shapes: M masked words, B inputs, H hidden, V word pieces.
Source: Devlin et al. 2019, section 3.1; names and products as in transformers' BertForPreTraining,
whose decoder is the table of word embeddings.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from raypipe.models.bert.files import POOLER, PREFIX, TENSORFLOW_LAST, named_by
from raypipe.models.packed import linear, normed
from raypipe.models.tensors import Named, Shape

_TRANSFORM = "cls.predictions.transform"
_BIAS = "cls.predictions.bias"
_NEXT = "cls.seq_relationship"
_DECODER = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
_WORDS = f"{PREFIX}embeddings.word_embeddings.weight"
_TENSORFLOW = {
    "cls/predictions/output_bias": _BIAS,
    "cls/seq_relationship/output_weights": f"{_NEXT}.weight",
    "cls/seq_relationship/output_bias": f"{_NEXT}.bias",
}


class BertPretraining:
    """See `raypipe.models.family.Pretraining`; saved names are canonical ones."""

    MASK = "[MASK]"

    def shapes(self, config: Mapping[str, Any], *, next_sentence: bool) -> dict[str, Shape]:
        """See Pretraining."""
        hidden = config["hidden_size"]
        shapes: dict[str, Shape] = {
            f"{_TRANSFORM}.dense.weight": (hidden, hidden),
            f"{_TRANSFORM}.dense.bias": (hidden,),
            f"{_TRANSFORM}.LayerNorm.weight": (hidden,),
            f"{_TRANSFORM}.LayerNorm.bias": (hidden,),
            _BIAS: (config["vocab_size"],),
        }
        if next_sentence:
            shapes |= {
                PREFIX + POOLER[0]: (hidden, hidden),
                PREFIX + POOLER[1]: (hidden,),
                f"{_NEXT}.weight": (2, hidden),
                f"{_NEXT}.bias": (2,),
            }
        return shapes

    def canonical_names(self, names: Iterable[str]) -> Named:
        """See Pretraining."""
        return named_by(_canonical, names)

    def untied(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """See Pretraining."""
        prefixed = {(PREFIX + n if n.startswith("embeddings.") else n): n for n in tensors}
        pairs = zip(_DECODER, (_WORDS, _BIAS), strict=True)
        return [
            name
            for name, tied in pairs
            if name in tensors
            and tied in prefixed
            and not torch.equal(tensors[name], tensors[prefixed[tied]])
        ]

    def words(self, weights: Mapping[str, Tensor], hidden_MH: Tensor, eps: float) -> Tensor:
        """See Pretraining."""

        def pair(name: str) -> tuple[Tensor, Tensor]:
            return weights[f"{name}.weight"], weights[f"{name}.bias"]

        widened = F.gelu(linear(hidden_MH, pair(f"{_TRANSFORM}.dense")))
        transformed = normed(widened, pair(f"{_TRANSFORM}.LayerNorm"), eps)
        return linear(transformed, (weights[_WORDS], weights[_BIAS]))

    def follows(self, weights: Mapping[str, Tensor], first_BH: Tensor) -> Tensor:
        """See Pretraining; as in BERT's own code without dropout after the pooler."""
        pooler = weights[PREFIX + POOLER[0]], weights[PREFIX + POOLER[1]]
        pooled = torch.tanh(linear(first_BH, pooler))
        return linear(pooled, (weights[f"{_NEXT}.weight"], weights[f"{_NEXT}.bias"]))

    def architecture(self, *, next_sentence: bool) -> str:
        """See Pretraining."""
        return "BertForPreTraining" if next_sentence else "BertForMaskedLM"


def _canonical(name: str) -> str | None:
    """transformers' name of a head's tensor; None for others and for the tied decoder."""
    plain = name.removesuffix(":0").removeprefix("module.")
    if plain in _TENSORFLOW:
        return _TENSORFLOW[plain]
    if plain.startswith("cls/"):
        *parts, last = plain.split("/")
        plain = ".".join([*parts, TENSORFLOW_LAST.get(last, last)])
    plain = plain.replace("LayerNorm.gamma", "LayerNorm.weight")
    plain = plain.replace("LayerNorm.beta", "LayerNorm.bias")
    known = (f"{_TRANSFORM}.dense.", f"{_TRANSFORM}.LayerNorm.", f"{_NEXT}.")
    named = plain == _BIAS or (plain.startswith(known) and plain.endswith((".weight", ".bias")))
    return plain if named else None


PRETRAINING = BertPretraining()
