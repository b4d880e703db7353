"""ModernBERT, as encoder and reranker.

Every third layer attends to the whole input, the others to a window around each token. There are no
segments and no table of positions. Variants whose layers differ are left to transformers.

Source: Warner et al. 2024 (ModernBERT).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from raypipe.models.bert.family import Family
from raypipe.models.modernbert.files import HEAD_BIAS, ModernBertFiles, attention_of
from raypipe.models.tensors import Config

if TYPE_CHECKING:  # importing torch takes seconds, and planning does not need it
    from torch import Tensor

    from raypipe.models.modernbert.forward import ModernBert
    from raypipe.models.packed import Head, Updates
    from raypipe.models.tensors import Tensors


class ModernBertFamily(Family):
    """ModernBERT's code; torch is imported to read weights."""

    def read(
        self, weights: Tensors, config: Config, *, updates: Updates | None = None
    ) -> ModernBert:
        """The body, with updates of its layers."""
        from raypipe.models.modernbert.forward import read_body

        places = self.files.expected_shapes(config, num_labels=None)
        tensors = self._as_bert(weights, places)
        return read_body(
            tensors,
            attention_of(config),
            num_heads=config["num_attention_heads"],
            eps=float(config["norm_eps"]),
            num_positions=self.files.num_positions(config),
            updates=self._updates(updates, places),
        )

    @property
    def forward(self) -> Callable[..., Tensor]:
        """The forward pass, `hidden_states`."""
        from raypipe.models.modernbert.forward import hidden_states

        return hidden_states

    def head(
        self,
        weights: Tensors,
        config: Config,
        *,
        updates: Updates | None = None,
    ) -> Head:
        """A linear layer, GELU and a normalisation, and the classifier."""
        import torch.nn.functional as F

        from raypipe.models.modernbert.forward import unbiased
        from raypipe.models.packed import Head, padded

        dense, norm = self.files.POOLER
        tensors = self._as_bert(weights, [*self.files.POOLER, *self.files.HEADS, HEAD_BIAS])
        tensors = {name: tensor.float() for name, tensor in tensors.items()}
        weight, bias = (tensors[name] for name in self.files.HEADS)
        biased = HEAD_BIAS in tensors
        first = (tensors[dense], tensors[HEAD_BIAS]) if biased else unbiased(tensors[dense])
        update = (self._updates(updates, [dense]) or {}).get(dense.removesuffix(".weight"), ())
        return Head(
            (*first, *update),
            padded((weight, bias)),
            num_units=len(bias),
            activation=F.gelu,
            norm=unbiased(tensors[norm]),
            eps=float(config["norm_eps"]),
            pooling=config.get("classifier_pooling", "cls"),
        )


FAMILY = ModernBertFamily(
    ModernBertFiles(
        kind="modernbert",
        classes="ModernBert",
        prefix="model.",
        layers="layers.",
        beside_layers=("embeddings.", "final_norm."),
        head=("head.dense.", "classifier."),
        adapted=("Wqkv", "Wo", "Wi", "dense"),
        keys={"hidden_act": "hidden_activation", "layer_norm_eps": "norm_eps"},
        fixed={"type_vocab_size": 1},
        has_table=False,
        words=(),
    )
)
