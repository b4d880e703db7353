"""Low-rank updates (LoRA) for the forward pass, with peft's names so that peft can merge them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from raypipe.models.packed import Updates


@dataclass(frozen=True, slots=True)
class LowRank:
    """W + alpha / rank * up down for every linear layer.

    Source: Hu et al. 2022, section 4.1: down is random, up begins with zeros.
    """

    rank: int
    alpha: float

    @property
    def scale(self) -> float:
        """The factor of the product: alpha / rank."""
        return self.alpha / self.rank


def drawn(names: list[str], base: Mapping[str, Tensor], rank: int, seed: int) -> dict[str, Tensor]:
    """Initial `NAME.lora_A.weight` [rank, in] and `NAME.lora_B.weight` [out, rank]."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name in names:
        num_out, num_in = base[f"{name}.weight"].shape
        bound = math.sqrt(1 / num_in)  # kaiming_uniform with a = sqrt(5), as in peft
        uniform = torch.rand(rank, num_in, generator=generator)
        found[f"{name}.lora_A.weight"] = (2 * uniform - 1) * bound
        found[f"{name}.lora_B.weight"] = torch.zeros(num_out, rank)
    return found


def updates_of(weights: Mapping[str, Tensor], scale: float) -> Updates:
    """(down, up times scale) of each layer that has an update among a training's weights."""
    ends = ".lora_A.weight"
    names = [name.removesuffix(ends) for name in weights if name.endswith(ends)]
    return {n: (weights[n + ends], weights[f"{n}.lora_B.weight"] * scale) for n in names}
