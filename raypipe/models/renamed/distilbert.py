"""DistilBERT (Sanh et al. 2019): no segments, and a ReLU between a head's two layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from raypipe.models.renamed.family import RenamedFamily
from raypipe.models.renamed.names import Names

if TYPE_CHECKING:
    from torch import Tensor

LAYER_NORM_EPS = 1e-12
"""A constant in transformers' code; config.json does not state it."""


def _activation() -> Callable[[Tensor], Tensor]:
    import torch

    return torch.relu


NAMES = Names(
    kind="distilbert",
    architecture="DistilBert",
    prefix="distilbert.",
    layers="transformer.layer.",
    parts=(
        (".attention.self.query.", ".attention.q_lin."),
        (".attention.self.key.", ".attention.k_lin."),
        (".attention.self.value.", ".attention.v_lin."),
        (".attention.output.dense.", ".attention.out_lin."),
        (".attention.output.LayerNorm.", ".sa_layer_norm."),
        (".intermediate.dense.", ".ffn.lin1."),
        (".output.dense.", ".ffn.lin2."),
        (".output.LayerNorm.", ".output_layer_norm."),
    ),
    head=("pre_classifier.", "classifier."),
    adapted=("q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"),
    keys={
        "hidden_size": "dim",
        "intermediate_size": "hidden_dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "hidden_act": "activation",
    },
    fixed={
        "type_vocab_size": 1,
        "layer_norm_eps": LAYER_NORM_EPS,
        "position_embedding_type": "absolute",
    },
    required={},
    specials=("[CLS]", "[SEP]", "[UNK]"),
    num_separators=1,
    first_position=0,
    has_segments=False,
)
DISTILBERT = RenamedFamily(NAMES, activation=_activation)
