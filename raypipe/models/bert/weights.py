"""A BERT encoder's weights, read from a checkpoint's tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.bert.tensor_names import prefix_of
from raypipe.models.machine.precision import DTYPES
from raypipe.models.machine.quantised import quantised
from raypipe.models.packed import Linear, Updates
from raypipe.models.segments import with_third_segment


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights; query, key and value are concatenated once."""

    qkv: Linear
    out: Linear
    norm_attention: Linear
    up: Linear
    down: Linear
    norm_output: Linear


@dataclass(frozen=True, slots=True)
class Bert:
    """A BERT encoder's weights, without pooler and heads; see `raypipe.models.body.Body`."""

    words: Tensor
    positions: Tensor
    segments: Tensor
    norm: Linear
    layers: tuple[Layer, ...]
    num_heads: int
    eps: float

    @property
    def width(self) -> int:
        """The hidden size, H."""
        return self.words.shape[1]

    @property
    def num_words(self) -> int:
        """Number of rows of the table of word pieces."""
        return len(self.words)

    @property
    def packed(self) -> bool:
        """See Body."""
        return True

    @property
    def num_positions(self) -> int:
        """Number of rows of the position table."""
        return len(self.positions)

    @property
    def num_segments(self) -> int:
        """Number of rows of the segment table."""
        return len(self.segments)

    @property
    def linears(self) -> list[Linear]:
        """The linear layers of all the model's layers, in order."""
        return [p for layer in self.layers for p in (layer.qkv, layer.out, layer.up, layer.down)]

    def to(self, device: str, precision: str = "fp32") -> "Bert":
        """The weights on `cpu` or `cuda`, those of the linear layers in the precision's dtype."""
        dtype = DTYPES[precision]

        def moved(linear: Linear, dtype: torch.dtype = torch.float32) -> Linear:
            if dtype == torch.int8:
                return quantised(linear)
            return tuple(tensor.to(device, dtype) for tensor in linear)

        layers = tuple(
            Layer(
                qkv=moved(layer.qkv, dtype),
                out=moved(layer.out, dtype),
                norm_attention=moved(layer.norm_attention),
                up=moved(layer.up, dtype),
                down=moved(layer.down, dtype),
                norm_output=moved(layer.norm_output),
            )
            for layer in self.layers
        )
        return replace(
            self,
            words=self.words.to(device),
            positions=self.positions.to(device),
            segments=self.segments.to(device),
            norm=moved(self.norm),
            layers=layers,
        )

    def with_third_segment(self, choice: str | None) -> "Bert":
        """The weights for a duoBERT model; see `with_third_segment`, which raises InputError."""
        return replace(self, segments=with_third_segment(self.segments, choice))


def read_bert(
    weights: Mapping[str, Tensor], config: Mapping[str, Any], *, updates: Updates | None = None
) -> Bert:
    """The encoder in a checkpoint, whether its names begin with `bert.` or not; fp32.

    Args:
        weights: tensors by saved name.
        config: config.json.
        updates: low-rank updates, attached to the layers that they name.

    Raises:
        InputError: another architecture, or missing tensors (the message names all).
    """
    kind, act = config.get("model_type"), config.get("hidden_act")
    if kind != "bert" or act != "gelu":
        raise InputError(f"expected a BERT with gelu, found model_type {kind!r}, {act!r}")
    prefix = prefix_of(weights)
    missing: list[str] = []

    def take(name: str) -> Tensor:
        if prefix + name not in weights:
            missing.append(prefix + name)
            return torch.empty(0)
        return weights[prefix + name].float().contiguous()

    def pair(name: str) -> tuple[Tensor, Tensor]:
        return take(f"{name}.weight"), take(f"{name}.bias")

    def linear(*names: str) -> Linear:
        parts = [pair(name) for name in names]
        joined: Linear = parts[0]
        if len(parts) > 1:
            joined = torch.cat([w for w, _ in parts]), torch.cat([b for _, b in parts])
        if updates is None or prefix + names[0] not in updates:
            return joined
        own = [updates[prefix + name] for name in names]
        down = torch.cat([down for down, _ in own])
        up = torch.block_diag(*[up for _, up in own])  # type: ignore[no-untyped-call]
        return (*joined, down, up)

    def layer(number: int) -> Layer:
        at = f"encoder.layer.{number}"
        return Layer(
            qkv=linear(*(f"{at}.attention.self.{part}" for part in ("query", "key", "value"))),
            out=linear(f"{at}.attention.output.dense"),
            norm_attention=pair(f"{at}.attention.output.LayerNorm"),
            up=linear(f"{at}.intermediate.dense"),
            down=linear(f"{at}.output.dense"),
            norm_output=pair(f"{at}.output.LayerNorm"),
        )

    bert = Bert(
        words=take("embeddings.word_embeddings.weight"),
        positions=take("embeddings.position_embeddings.weight"),
        segments=take("embeddings.token_type_embeddings.weight"),
        norm=pair("embeddings.LayerNorm"),
        layers=tuple(layer(n) for n in range(config["num_hidden_layers"])),
        num_heads=config["num_attention_heads"],
        eps=config["layer_norm_eps"],
    )
    if missing:
        raise InputError([f"the checkpoint lacks the tensor {name}" for name in missing])
    return bert
