"""BERT's forward pass over packed sequences.

Shapes: T tokens of a batch, H hidden, B sequences.
"""

import torch.nn.functional as F
from torch import Tensor

from raypipe.models.bert.weights import Bert, Layer
from raypipe.models.packed import (
    Attention,
    Dropout,
    Groups,
    Product,
    RunLayer,
    gelu,
    linear,
    normed,
    plus,
)


def hidden_states(
    bert: Bert,
    ids_T: Tensor,
    positions_T: Tensor,
    segments: int | Tensor,
    groups: Groups,
    attend: Attention,
    *,
    wanted: Tensor | None = None,
    drop: Dropout = lambda x: x,
    run_layer: RunLayer = lambda layer, x: layer(x),
    product: Product = linear,
) -> Tensor:
    """Last hidden states, fp32 [T, H]; `segments` is one for all tokens, or int64 [T].

    With `wanted`, int64 [B], only those of these tokens, [B, H]. The last layer then computes no
    others after its attention: 12% less work in 6 layers if only [CLS] is read.

    It differs from transformers' BertModel only in layout, and is equal to 1e-5 for every single
    sequence.
    """
    embedded = _embedded(bert, ids_T, positions_T, segments)
    hidden_TH = drop(normed(embedded, bert.norm, bert.eps))
    del embedded  # otherwise it would use memory while the layers compute
    for layer in bert.layers:
        kept = wanted if layer is bert.layers[-1] else None

        def run(x: Tensor, layer: Layer = layer, kept: Tensor | None = kept) -> Tensor:
            mixed = attend(product(x, layer.qkv), bert.num_heads, groups)
            if kept is not None:
                mixed, x = mixed[kept], x[kept]
            attended = plus(drop(product(mixed, layer.out)), x)
            attended = normed(attended, layer.norm_attention, bert.eps)
            widened = gelu(product(attended, layer.up))
            output = plus(drop(product(widened, layer.down)), attended)
            return normed(output, layer.norm_output, bert.eps)

        hidden_TH = run_layer(run, hidden_TH)
    return hidden_TH


def _embedded(bert: Bert, ids_T: Tensor, positions_T: Tensor, segments: int | Tensor) -> Tensor:
    """The three embeddings summed, fp32 [T, H]."""
    # F.embedding, not indexing: its gradient adds in one order for any number of threads.
    of_segment = (
        bert.segments[segments]
        if isinstance(segments, int)
        else F.embedding(segments, bert.segments)
    )
    words = F.embedding(ids_T, bert.words)
    return words + of_segment + F.embedding(positions_T, bert.positions)
