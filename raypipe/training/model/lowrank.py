"""Low-rank updates (LoRA) in the packed forward, under peft's names so that peft can merge them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from raypipe.models.bert.forward import Bert, Linear

PEFT = "base_model.model."
"""What peft puts before a tensor's name."""


@dataclass(frozen=True, slots=True)
class LowRank:
    """W + alpha / rank * up down for every linear layer of BERT.

    Source: Hu et al. 2022, section 4.1: down is drawn, up begins with zeros.
    """

    rank: int
    alpha: float

    @property
    def scale(self) -> float:
        """What multiplies the product."""
        return self.alpha / self.rank


def drawn(names: list[str], base: Mapping[str, Tensor], rank: int, seed: int) -> dict[str, Tensor]:
    """`NAME.lora_A.weight` [rank, in] and `NAME.lora_B.weight` [out, rank] of linear layers."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name in names:
        num_out, num_in = base[f"{name}.weight"].shape
        bound = math.sqrt(1 / num_in)  # kaiming_uniform with a = sqrt(5), as peft draws it
        uniform = torch.rand(rank, num_in, generator=generator)
        found[f"{name}.lora_A.weight"] = (2 * uniform - 1) * bound
        found[f"{name}.lora_B.weight"] = torch.zeros(num_out, rank)
    return found


def linear_names(base: Mapping[str, Tensor], *, pooler: bool) -> list[str]:
    """The layers that get an update: all of the encoder's, and the pooler's."""
    return [
        name.removesuffix(".weight")
        for name, tensor in base.items()
        if name.endswith(".weight")
        and tensor.dim() == 2
        and "embeddings" not in name
        and "LayerNorm" not in name
        and name.startswith("bert.")
        and (pooler or "pooler" not in name)
    ]


def updated(bert: Bert, weights: Mapping[str, Tensor], scale: float) -> Bert:
    """The model with its updates beside its weights."""

    def update(name: str) -> tuple[Tensor, Tensor]:
        return weights[f"{name}.lora_A.weight"], weights[f"{name}.lora_B.weight"] * scale

    def joined(linear: Linear, *names: str) -> Linear:
        parts = [update(name) for name in names]
        down = torch.cat([down for down, _ in parts])
        up = torch.block_diag(*[up for _, up in parts])  # type: ignore[no-untyped-call]
        return (*linear[:2], down, up)

    layers = []
    for number, layer in enumerate(bert.layers):
        at = f"bert.encoder.layer.{number}"
        own = [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
        layers.append(
            replace(
                layer,
                qkv=joined(layer.qkv, *own),
                out=joined(layer.out, f"{at}.attention.output.dense"),
                up=joined(layer.up, f"{at}.intermediate.dense"),
                down=joined(layer.down, f"{at}.output.dense"),
            )
        )
    return replace(bert, layers=tuple(layers))
