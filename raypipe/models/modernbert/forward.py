"""ModernBERT's forward pass: rotary positions, local and global attention, GeGLU, no biases.

A layer normalises what it reads and adds to what it was given, which is normalised at the end. The
first layer reads the embeddings, which are normalised already. Sources: Warner et al. 2024, section
2.1; Su et al. 2021 (RoFormer), equation 34, with the two halves of a head for its odd and even
dimensions, as in transformers' ModernBertModel.

Shapes: T tokens of a batch, H hidden, B sequences, N heads, D head size, P positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from raypipe.models.machine.precision import DTYPES
from raypipe.models.modernbert.files import WORDS
from raypipe.models.packed import (
    Attention,
    Body,
    Dropout,
    Groups,
    Layer,
    Linear,
    Product,
    RunLayer,
    Updates,
    linear,
    moved,
    moved_all,
    normed,
    plus,
)


class Turns(NamedTuple):
    """Cosines and sines of the angles of each position, fp32 [P, D / 2] each."""

    cos: Tensor
    sin: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernBertLayer(Layer):
    """One layer's weights; `up` gives the activated half and then the half that it is multiplied
    by. The first layer has no normalisation before its attention."""

    norm_attention: Linear | None
    norm_inner: Linear
    theta: float
    """The base of its rotary positions."""
    window: int | None
    """How far a token attends; None means to its whole sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernBert(Body):
    """A ModernBERT encoder's weights. It is never `fused`: its layers normalise before a product,
    which no kernel computes."""

    last_norm: Linear
    turns: Mapping[float, Turns]
    """By theta."""

    @property
    def windows(self) -> set[int | None]:
        """The windows of its layers."""
        return {layer.window for layer in self.layers}

    def to(self, device: str, precision: str = "fp32") -> "ModernBert":
        """The weights on `cpu` or `cuda`, those of the linear layers in the precision's dtype."""
        turns = {theta: Turns(*moved(each, device)) for theta, each in self.turns.items()}
        return replace(moved_all(self, device, DTYPES[precision]), turns=turns)


def unbiased(weight: Tensor) -> Linear:
    """The weight of a linear layer or of a normalisation that has no bias."""
    return weight, weight.new_zeros(1 if weight.dim() == 2 else len(weight))


def turns_of(theta: float, head_size: int, num_positions: int) -> Turns:
    """The angle of a pair of dimensions i at position p is p theta^(-2 i / D).

    They are a table, since a cosine's last bit may depend on its place among others.
    """
    rates = 1.0 / theta ** (torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
    angles = torch.arange(num_positions, dtype=torch.float32)[:, None] * rates
    return Turns(angles.cos(), angles.sin())


def read_body(
    weights: Mapping[str, Tensor],
    attention: Sequence[tuple[float, int | None]],
    *,
    num_heads: int,
    eps: float,
    num_positions: int,
    updates: Updates | None = None,
) -> ModernBert:
    """The encoder of these tensors, fp32.

    Args:
        weights: every tensor of a body, by canonical name.
        attention: theta and window of each layer.
        num_heads: of each layer.
        eps: of every normalisation.
        num_positions: P.
        updates: low-rank updates, attached to the layers that they name.
    """

    def take(name: str) -> Linear:
        plain = unbiased(weights[f"{name}.weight"].float().contiguous())
        return (*plain, *(updates or {}).get(name, ()))

    def layer(number: int, theta: float, window: int | None) -> ModernBertLayer:
        at = f"layers.{number}"
        return ModernBertLayer(
            norm_attention=take(f"{at}.attn_norm") if number else None,
            qkv=take(f"{at}.attn.Wqkv"),
            out=take(f"{at}.attn.Wo"),
            norm_inner=take(f"{at}.mlp_norm"),
            up=take(f"{at}.mlp.Wi"),
            down=take(f"{at}.mlp.Wo"),
            theta=theta,
            window=window,
        )

    words = weights[WORDS].float().contiguous()
    size = words.shape[1] // num_heads
    turns = {theta: turns_of(theta, size, num_positions) for theta, _ in attention}
    return ModernBert(
        words=words,
        norm=take("embeddings.norm"),
        layers=tuple(layer(number, *each) for number, each in enumerate(attention)),
        last_norm=take("final_norm"),
        turns={theta: Turns(*moved(each, str(words.device))) for theta, each in turns.items()},
        num_heads=num_heads,
        eps=eps,
    )


def turned(qkv: Tensor, num_heads: int, turns: Turns) -> Tensor:
    """Queries and keys turned by the angles of their tokens, and values as they are, [T, 3H].

    In fp32 without gradients they are in the memory of qkv.

    Args:
        qkv: [T, 3H].
        num_heads: N.
        turns: of the tokens, [T, D / 2] each.
    """
    parts = qkv.view(len(qkv), 3, num_heads, 2, -1)
    first, second = parts[:, :2].unbind(3)
    cos, sin = (each[:, None, None] for each in turns)
    if torch.is_grad_enabled() or qkv.dtype != cos.dtype:
        both = torch.stack((first * cos - second * sin, second * cos + first * sin), dim=3)
        return torch.cat([both.to(qkv.dtype), parts[:, 2:]], dim=1).view_as(qkv)
    of_first, of_second = first * sin, second * sin
    first.mul_(cos).sub_(of_second)
    second.mul_(cos).add_(of_first)
    return qkv


def gated(inner: Tensor) -> Tensor:
    """gelu(first half) times the second half. Source: Shazeer 2020, equation 6 (GEGLU)."""
    first, second = inner.chunk(2, dim=1)
    activated = F.gelu(first)
    return activated * second if torch.is_grad_enabled() else activated.mul_(second)


def hidden_states(
    model: ModernBert,
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
    """Last hidden states, fp32 [T, H], equal to transformers' ModernBertModel to 1e-5.

    With `wanted`, int64 [B], only those of these tokens, [B, H]; the last layer computes no others
    after its attention.
    """
    hidden_TH = drop(normed(F.embedding(ids_T, model.words), model.norm, model.eps))
    turns = {
        theta: Turns(each.cos[positions_T], each.sin[positions_T])
        for theta, each in model.turns.items()
    }
    for layer in model.layers:
        kept = wanted if layer is model.layers[-1] else None

        def run(x: Tensor, layer: ModernBertLayer = layer, kept: Tensor | None = kept) -> Tensor:
            before = layer.norm_attention
            read = x if before is None else normed(x, before, model.eps)
            qkv = turned(product(read, layer.qkv), model.num_heads, turns[layer.theta])
            mixed = attend(qkv, model.num_heads, groups, layer.window)
            if kept is not None:
                mixed, x = mixed[kept], x[kept]
            # In the memory of x: that of a product belongs to the next one.
            x = plus(x, drop(product(mixed, layer.out)))
            inner = product(normed(x, layer.norm_inner, model.eps), layer.up)
            return plus(x, product(drop(gated(inner)), layer.down))

        hidden_TH = run_layer(run, hidden_TH)
    return normed(hidden_TH, model.last_norm, model.eps)
