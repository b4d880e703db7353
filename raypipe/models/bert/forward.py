"""BERT's weights, its forward pass over packed sequences, and the heads on top of it.

A reranker has a pooler and a classifier; pre-training has two heads, of the masked words and of
whether B follows A. Source of these: Devlin et al. 2019, section 3.1; names and products as in
transformers' BertForPreTraining, whose decoder is the table of word embeddings.

Shapes: T tokens of a batch, H hidden, B sequences, M masked words, V word pieces.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from raypipe.models.bert.files import (
    POOLER,
    PREFIX,
    WORDS,
    BertFiles,
    dense_shapes,
    norm_shapes,
)
from raypipe.models.packed import (
    Attention,
    Between,
    Body,
    Dropout,
    Groups,
    Layer,
    Linear,
    Plain,
    Product,
    RunLayer,
    States,
    Updates,
    linear,
    normed,
)
from raypipe.models.tensors import Config, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class BertLayer(Layer):
    """One layer's weights."""

    norm_attention: Linear
    norm_output: Linear


@dataclass(frozen=True, slots=True, kw_only=True)
class Bert(Body):
    """A BERT encoder's weights, without pooler and heads."""

    positions: Tensor
    segments: Tensor
    between: Between = Plain()
    """The work between a layer's products."""

    def fused(self, between: Between) -> "Bert":
        """The same weights, with this work between a layer's products."""
        return replace(self, between=between)


def read_bert(
    weights: Mapping[str, Tensor], config: Config, *, updates: Updates | None = None
) -> Bert:
    """The encoder of these tensors, fp32.

    Args:
        weights: every tensor of a body, by canonical name.
        config: config.json, under BERT's keys.
        updates: low-rank updates, attached to the layers that they name.
    """

    def take(name: str) -> Tensor:
        return weights[name].float().contiguous()

    def pair(name: str) -> tuple[Tensor, Tensor]:
        return take(f"{name}.weight"), take(f"{name}.bias")

    def linear(*names: str) -> Linear:
        parts = [pair(name) for name in names]
        joined: Linear = parts[0]
        if len(parts) > 1:
            joined = torch.cat([w for w, _ in parts]), torch.cat([b for _, b in parts])
        if updates is None or names[0] not in updates:
            return joined
        own = [updates[name] for name in names]
        down = torch.cat([down for down, _ in own])
        up = torch.block_diag(*[up for _, up in own])  # type: ignore[no-untyped-call]
        return (*joined, down, up)

    def layer(number: int) -> BertLayer:
        at = f"encoder.layer.{number}"
        return BertLayer(
            qkv=linear(*(f"{at}.attention.self.{part}" for part in ("query", "key", "value"))),
            out=linear(f"{at}.attention.output.dense"),
            norm_attention=pair(f"{at}.attention.output.LayerNorm"),
            up=linear(f"{at}.intermediate.dense"),
            down=linear(f"{at}.output.dense"),
            norm_output=pair(f"{at}.output.LayerNorm"),
        )

    return Bert(
        words=take("embeddings.word_embeddings.weight"),
        positions=take("embeddings.position_embeddings.weight"),
        segments=take("embeddings.token_type_embeddings.weight"),
        norm=pair("embeddings.LayerNorm"),
        layers=tuple(layer(n) for n in range(config["num_hidden_layers"])),
        num_heads=config["num_attention_heads"],
        eps=config["layer_norm_eps"],
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
    first_TH = drop(normed(embedded, bert.norm, bert.eps))
    del embedded  # otherwise it would use memory while the layers compute
    states = States(first_TH, first_TH)
    del first_TH
    between = bert.between
    for layer in bert.layers:
        kept = wanted if layer is bert.layers[-1] else None

        def run(x: States, layer: BertLayer = layer, kept: Tensor | None = kept) -> States:
            mixed = attend(product(x.narrow, layer.qkv), bert.num_heads, groups)
            residual = x.wide
            if kept is not None:
                mixed, residual = mixed[kept], residual[kept]
            attended = between.sum_norm(
                drop(product(mixed, layer.out)), residual, layer.norm_attention, bert.eps
            )
            widened = between.inner(attended.narrow, layer.up, product)
            return between.sum_norm(
                drop(product(widened, layer.down)), attended.wide, layer.norm_output, bert.eps
            )

        states = run_layer(run, states)
    return states.wide


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


_NEXT = "cls.seq_relationship"


class BertPretraining:
    """The heads of a BERT's pre-training, whose saved names are the canonical ones."""

    TIED: Mapping[str, Any] = {"tie_word_embeddings": True}

    def __init__(self, files: BertFiles) -> None:
        """The heads of the family with these files; that of the next sentence is BERT's alone."""
        self.MASK, self.FOLLOWS = files.mask, files.kind == "bert"
        self._files = files
        self._dense, self._norm, decoder, self._bias = files.words
        self._decoder = (f"{decoder}.weight", f"{decoder}.bias")
        self._words = files.prefix + WORDS

    def shapes(self, config: Config, *, next_sentence: bool) -> dict[str, Shape]:
        """Shapes of the head for masked words; with `next_sentence` also of a BERT's other head."""
        hidden = self._files.as_bert(config)["hidden_size"]
        shapes = dense_shapes(self._dense, hidden, hidden) | norm_shapes(self._norm, hidden)
        shapes[self._bias] = (config["vocab_size"],)
        if next_sentence and self.FOLLOWS:
            shapes |= dense_shapes(f"{PREFIX}pooler.dense", hidden, hidden)
            shapes |= dense_shapes(_NEXT, hidden, 2)
        return shapes

    def canonical_names(self, names: Iterable[str]) -> dict[str, str]:
        """Names by canonical name. A decoder's bias stands for the one that it is tied to."""
        listed, decoder = sorted(names), self._decoder[1]
        layers = (f"{self._dense}.", f"{self._norm}.", f"{_NEXT}.")
        of_layer = [n for n in listed if n.startswith(layers) and n.endswith((".weight", ".bias"))]
        bias = next((name for name in (self._bias, decoder) if name in listed), None)
        return {name: name for name in of_layer} | ({} if bias is None else {self._bias: bias})

    def untied(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """The problem of a decoder's weight or bias that differs from the word embeddings or the
        bias, to which it is tied."""
        prefix = self._files.prefix
        prefixed = {(prefix + n if n.startswith("embeddings.") else n): n for n in tensors}
        pairs = zip(self._decoder, (self._words, self._bias), strict=True)
        return [
            f"{name}: expected the tensor that it is tied to, found another"
            for name, tied in pairs
            if name in tensors
            and tied in prefixed
            and not torch.equal(tensors[name], tensors[prefixed[tied]])
        ]

    def words(self, weights: Mapping[str, Tensor], hidden_MH: Tensor, eps: float) -> Tensor:
        """Logits of masked words, [M, V]: a linear layer, GELU, normalisation and the decoder."""

        transform, norm, words = self.word_head(weights)
        transformed = normed(F.gelu(linear(hidden_MH, transform)), norm, eps)
        return linear(transformed, words)

    def word_head(self, weights: Mapping[str, Tensor]) -> tuple[Linear, Linear, Linear]:
        """Weights and biases of the linear layer, of its normalisation, and of the decoder."""
        dense, norm = (
            (weights[f"{each}.weight"], weights[f"{each}.bias"])
            for each in (self._dense, self._norm)
        )
        bias = self._bias if self._bias in weights else self._decoder[1]
        return dense, norm, (weights[self._words], weights[bias])

    def follows(self, weights: Mapping[str, Tensor], first_BH: Tensor) -> Tensor:
        """Logits [B, 2] from the pooler, as in BERT's own code without dropout after it."""
        pooler = weights[PREFIX + POOLER[0]], weights[PREFIX + POOLER[1]]
        pooled = torch.tanh(linear(first_BH, pooler))
        return linear(pooled, (weights[f"{_NEXT}.weight"], weights[f"{_NEXT}.bias"]))

    def architecture(self, *, next_sentence: bool) -> str:
        """The class for masked words alone, or for both heads if there are two."""
        both = next_sentence and self.FOLLOWS
        return self._files.classes + ("ForPreTraining" if both else "ForMaskedLM")
