"""Parts of every family's forward pass: products and attention of packed sequences.

There is no padding, so a row's bytes do not depend on its neighbours. Training uses the same
functions, with dropout and low-rank updates passed in.

Shapes: T tokens of a batch, H hidden, B sequences, L length of a group, N heads, D head size.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from raypipe.models.machine.precision import DTYPES, int8_linear, quantised

MIN_ROWS = 16
"""With fewer rows, other matrix kernels are used, whose sums differ in the last bit."""

TILE_ROWS = {"cpu": 256, "cuda": 8192}
"""Rows of a product in bf16 or fp16: many enough for speed, few enough to waste little."""

Groups = list[tuple[int, int]]
"""(sequences, length) of each stretch of equal lengths, in order."""
Linear = tuple[Tensor, ...]
"""Weight [out, in] and bias [out], or one zero where a layer has no bias; a low-rank update adds
down [r, in] and up [out, r]. In int8, the scales of the outputs [out] come third."""
PRODUCT = {"moved to": "the precision's dtype"}
"""Metadata of a field with a linear layer whose product is computed in a model's precision."""
Updates = Mapping[str, tuple[Tensor, Tensor]]
"""(down [r, in], up [out, r]) of a linear layer by its name, without `.weight` and `.bias`."""
Dropout = Callable[[Tensor], Tensor]
Product = Callable[[Tensor, Linear], Tensor]
"""A linear layer's product, as `linear`."""
Room = Callable[[int, int, torch.dtype], Tensor]
"""Memory for a result, [rows, width]."""
X = TypeVar("X")


class RunLayer(Protocol):
    """Calls a layer with its input: directly, or so that the backward pass computes it again."""

    def __call__(self, layer: Callable[[X], X], x: X, /) -> X:
        """The layer's output."""


class States(NamedTuple):
    """Normalised states of tokens, [T, H] each."""

    wide: Tensor
    """fp32, which the next sum reads."""
    narrow: Tensor
    """The same, or rounded to the dtype of the product that reads it."""


class Between(Protocol):
    """A layer's work between its products. Without gradients it may reuse the memory of `x`."""

    def sum_norm(self, x: Tensor, y: Tensor, norm: Linear, eps: float, /) -> States:
        """Layer normalisation of x + y, of which x is a product's result and y fp32."""

    def inner(self, x: Tensor, weights: Linear, product: Product, /) -> Tensor:
        """gelu(x W^T + b), with BERT's gelu, the one with erf."""


class Attention(Protocol):
    """Attention of packed sequences."""

    def __call__(
        self, qkv: Tensor, num_heads: int, groups: Groups, window: int | None = ..., /
    ) -> Tensor:
        """[T, 3H] -> [T, H], of each sequence alone.

        With `window`, a token attends to the tokens of its sequence that are at most so far away.
        """


def groups_of(lengths: NDArray[np.int64]) -> Groups:
    """The stretches of equal lengths in int64 [B], in order."""
    return [(len(list(group)), int(length)) for length, group in groupby(lengths.tolist())]


def linear(x: Tensor, weights: Linear, room: Room | None = None) -> Tensor:
    """x W^T + b (+ x down^T up^T with an update), [rows, out], of at least MIN_ROWS rows.

    With weights in bf16 or fp16, x is rounded to their dtype, and the product is in that dtype;
    with int8 ones, the product is fp32 (see `raypipe.models.machine.precision`). A `room` has
    memory for the result; then there are no gradients.
    """
    if weights[0].dtype == torch.int8:
        return int8_linear(x, weights, room)
    if weights[0].dtype in (torch.bfloat16, torch.float16):
        return _in_tiles(x.to(weights[0].dtype), weights, room)
    rows = x.shape[0]
    if rows < MIN_ROWS:
        x = F.pad(x, (0, 0, 0, MIN_ROWS - rows))
    weight, bias, *update = weights
    biased = len(bias) == len(weight)  # adding zeros would take a pass over the result
    if room is None:
        y = F.linear(x, weight, bias if biased else None)
    else:
        out = room(len(x), len(weight), x.dtype)
        y = torch.addmm(bias, x, weight.T, beta=int(biased), out=out)
    if update:
        down, up = update
        y = y + F.linear(F.linear(x, down), up)
    return y[:rows]


def moved(weights: Linear, device: str, dtype: torch.dtype = torch.float32) -> Linear:
    """A linear layer's weights on a device, in a precision's dtype."""
    if dtype == torch.int8:
        return quantised(weights)
    return tuple(tensor.to(device, dtype) for tensor in weights)


def moved_all(weights: X, device: str, dtype: torch.dtype = torch.float32) -> X:
    """A dataclass of weights on a device, fp32; its fields that are `PRODUCT`s in the dtype."""

    def there(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(device, torch.float32)
        if isinstance(value, tuple):
            return tuple(map(there, value))
        return moved_all(value, device, dtype) if is_dataclass(value) else value

    part: Any = weights
    every = {each: getattr(part, each.name) for each in fields(part)}
    moved_fields = {
        each.name: moved(value, device, dtype) if each.metadata == PRODUCT else there(value)
        for each, value in every.items()
    }
    on_device: X = replace(part, **moved_fields)
    return on_device


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The products of a layer; a family adds its normalisations."""

    qkv: Linear = field(metadata=PRODUCT)
    """Query, key and value, concatenated once."""
    out: Linear = field(metadata=PRODUCT)
    up: Linear = field(metadata=PRODUCT)
    down: Linear = field(metadata=PRODUCT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Weights of an encoder, fp32 until they are moved, without a reranker's head."""

    words: Tensor
    norm: Linear
    layers: tuple[Any, ...]
    """A `Layer` each, with what its family adds."""
    num_heads: int
    """Attention heads of a layer."""
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
    def windows(self) -> set[int | None]:
        """The windows of its layers' attention; None if a layer has none."""
        return {None}

    @property
    def linears(self) -> list[Linear]:
        """The linear layers, in order, whose products are tested for effects of other rows."""
        return [p for layer in self.layers for p in (layer.qkv, layer.out, layer.up, layer.down)]

    def to(self, device: str, precision: str = "fp32") -> Self:
        """The weights on `cpu` or `cuda`, those of the linear layers in the precision's dtype."""
        return moved_all(self, device, DTYPES[precision])

    def fused(self, between: Between) -> Self:
        """The body with this work between a layer's products; itself if it has other work there."""
        return self


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a reranker: a first layer, a function, perhaps a normalisation, a classifier."""

    pooler: Linear
    classifier: Linear
    """Padded with zeros to 16 units: narrower products use other kernels (see MIN_ROWS)."""
    num_units: int
    activation: Callable[[Tensor], Tensor]
    """The function behind the first layer."""
    norm: Linear = ()
    """A normalisation after that, if there is one."""
    eps: float = 0.0
    pooling: str = "cls"
    """Pooling of the states that it reads: cls, the first token's alone, or mean."""

    @property
    def linears(self) -> list[Linear]:
        """Both linear layers."""
        return [self.pooler, self.classifier]

    def to(self, device: str) -> "Head":
        """The weights on `cpu` or `cuda`."""
        return moved_all(self, device)

    def logits(self, pooled_BH: Tensor, *, drop: Dropout = lambda x: x) -> Tensor:
        """Each sequence's units, fp32 [B, num_units], from its pooled state."""
        widened = self.activation(linear(pooled_BH, self.pooler))
        if self.norm:
            widened = normed(widened, self.norm, self.eps)
        return linear(drop(widened), self.classifier)[:, : self.num_units]


def padded(classifier: Linear) -> Linear:
    """A classifier with zeros up to MIN_ROWS units."""
    weight, bias = classifier
    filled = MIN_ROWS - len(bias)
    return F.pad(weight, (0, 0, 0, filled)), F.pad(bias, (0, filled))


def _in_tiles(x: Tensor, weights: Linear, room: Room | None) -> Tensor:
    """x W^T + b in products of TILE_ROWS rows each, the last filled up; without gradients.

    Kernels for bf16 and fp16 divide the inner sums by the number of rows (seen on AMX from inner
    size 768 on). With one number for all products a row has one value.
    """
    weight, bias = weights
    tile, rows = TILE_ROWS[x.device.type], x.shape[0]
    y = x.new_empty(rows, len(weight)) if room is None else room(rows, len(weight), x.dtype)
    filled = rows - rows % tile
    for start in range(0, filled, tile):
        stop = start + tile
        torch.addmm(bias, x[start:stop], weight.T, out=y[start:stop])
    if filled < rows:
        last = F.pad(x[filled:], (0, 0, 0, tile - (rows - filled)))
        y[filled:] = torch.addmm(bias, last, weight.T)[: rows - filled]
    return y


def gelu(x: Tensor) -> Tensor:
    """BERT's gelu, the one with erf; in the memory of x if there are no gradients."""
    return F.gelu(x) if torch.is_grad_enabled() else torch.ops.aten.gelu_(x)


def plus(x: Tensor, y: Tensor) -> Tensor:
    """x + y; in the memory of x if there are no gradients and the sum has its dtype."""
    if not torch.is_grad_enabled() and x.dtype == y.dtype:
        return x.add_(y)
    return x + y


class Plain:
    """The work between products by torch's own functions, on any device and with gradients."""

    def sum_norm(self, x: Tensor, y: Tensor, norm: Linear, eps: float) -> States:
        """`plus` and `normed`; the next product converts the result."""
        result = normed(plus(x, y), norm, eps)
        return States(result, result)

    def inner(self, x: Tensor, weights: Linear, product: Product) -> Tensor:
        """`gelu` of the product."""
        return gelu(product(x, weights))


def normed(x: Tensor, weights: Linear, eps: float) -> Tensor:
    """Layer normalisation, [T, H]."""
    weight, bias = weights
    return F.layer_norm(x, (x.shape[1],), weight, bias, eps)


def attend_by_length(
    qkv: Tensor, num_heads: int, groups: Groups, window: int | None = None
) -> Tensor:
    """Attention within each sequence, [T, 3H] -> [T, H]; one call per length, without padding.

    It runs on one CPU thread. With two, each has its own buffer, and if sizes leave one of them
    unaligned (seen at length 17, head size 8), the last bit depends on which thread computed the
    row.
    """
    with _one_thread():
        return attend_freely(qkv, num_heads, groups, window)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def attend_freely(
    qkv: Tensor,
    num_heads: int,
    groups: Groups,
    window: int | None = None,
    *,
    dropout: float = 0.0,
) -> Tensor:
    """Like `attend_by_length`, but on all threads; the last bits may depend on them.

    With gradients in bf16 on a CPU, it is two products and a softmax: the backward pass of torch's
    own kernel takes four times as long there.
    """
    slow = qkv.requires_grad and qkv.dtype == torch.bfloat16 and qkv.device.type == "cpu"
    mix = _products if slow else F.scaled_dot_product_attention
    # split and unbind, not slices: the gradient of each slice would be a zero tensor of all tokens.
    parts = []
    width = qkv.shape[1] // 3
    of_groups = torch.split(qkv, [count * length for count, length in groups])
    for (count, length), own in zip(groups, of_groups, strict=True):
        heads = own.view(count, length, 3, num_heads, width // num_heads)
        q, k, v = (part.transpose(1, 2) for part in heads.unbind(2))
        mixed = mix(q, k, v, attn_mask=_near(length, window, qkv.device), dropout_p=dropout)
        parts.append(mixed.transpose(1, 2).reshape(count * length, width))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _near(length: int, window: int | None, device: torch.device) -> Tensor | None:
    """Whether two tokens of a sequence are in each other's window, [L, L]; None if all are."""
    if window is None or length <= window + 1:
        return None
    every = torch.ones(length, length, dtype=torch.bool, device=device)
    return every.tril_(window).triu_(-window)


def _products(
    q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None, dropout_p: float
) -> Tensor:
    """Attention by plain products, [B, heads, L, head size] each.

    On CPUs, the backward pass of torch's own bf16 kernel takes four times as long
    (tests/benchmarks/train_precisions.py).
    """
    weights = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if attn_mask is not None:
        weights = weights.masked_fill(~attn_mask, float("-inf"))
    weights = torch.softmax(weights, dim=-1)
    return F.dropout(weights, dropout_p) @ v


def first_tokens(groups: Groups, device: str | torch.device) -> Tensor:
    """The position of each sequence's first token, int64 [B]."""
    lengths = torch.tensor([length for count, length in groups for _ in range(count)])
    return (torch.cumsum(lengths, 0) - lengths).to(device)
