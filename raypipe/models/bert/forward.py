"""BERT's forward over packed sequences: no padding, so no row's bytes know its neighbours.

Training goes through the same functions, with dropout and low-rank updates put in from outside.

Shapes: T tokens of a batch, H hidden, B sequences, L length of a group, N heads, D head size.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from raypipe.errors import InputError

MIN_ROWS = 16
"""Fewer rows take other matrix kernels, whose sums differ in the last bit."""

Groups = list[tuple[int, int]]
"""(sequences, length) of each stretch of equal lengths, in order."""
Attention = Callable[[Tensor, int, Groups], Tensor]
Linear = tuple[Tensor, ...]
"""Weight [out, in] and bias [out]; a low-rank update adds down [r, in] and up [out, r]."""
Dropout = Callable[[Tensor], Tensor]
RunLayer = Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]
"""Calls a layer with its input: at once, or so that the backward computes it again."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's weights; query, key and value concatenated once."""

    qkv: Linear
    out: Linear
    norm_attention: Linear
    up: Linear
    down: Linear
    norm_output: Linear


@dataclass(frozen=True, slots=True)
class Bert:
    """A BERT encoder's weights, without pooler and heads."""

    words: Tensor
    positions: Tensor
    segments: Tensor
    norm: Linear
    layers: tuple[Layer, ...]
    num_heads: int
    eps: float


def read_bert(weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> Bert:
    """The encoder in a checkpoint, whether its names begin with `bert.` or not; fp32.

    Raises:
        InputError: another architecture, or tensors are missing (all are named).
    """
    kind, act = config.get("model_type"), config.get("hidden_act")
    if kind != "bert" or act != "gelu":
        raise InputError(f"expected a BERT with gelu, found model_type {kind!r}, {act!r}")
    prefix = "bert." if any(name.startswith("bert.") for name in weights) else ""
    missing: list[str] = []

    def take(name: str) -> Tensor:
        if prefix + name not in weights:
            missing.append(prefix + name)
            return torch.empty(0)
        return weights[prefix + name].float().contiguous()

    def pair(name: str) -> tuple[Tensor, Tensor]:
        return take(f"{name}.weight"), take(f"{name}.bias")

    def layer(number: int) -> Layer:
        at = f"encoder.layer.{number}"
        parts = [pair(f"{at}.attention.self.{part}") for part in ("query", "key", "value")]
        return Layer(
            qkv=(torch.cat([w for w, _ in parts]), torch.cat([b for _, b in parts])),
            out=pair(f"{at}.attention.output.dense"),
            norm_attention=pair(f"{at}.attention.output.LayerNorm"),
            up=pair(f"{at}.intermediate.dense"),
            down=pair(f"{at}.output.dense"),
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
) -> Tensor:
    """Last hidden states, fp32 [T, H]; `segments` is one for all tokens, or int64 [T].

    With `wanted`, int64 [B], those of these tokens alone, [B, H], and the last layer computes no
    others after its attention: 12% less work in 6 layers for who reads [CLS].

    Differs from transformers' BertModel in layout only: equal to 1e-5 for every sequence alone.
    """
    embedded = _embedded(bert, ids_T, positions_T, segments)
    hidden_TH = drop(_normed(embedded, bert.norm, bert.eps))
    del embedded  # or it would live as long as the layers compute
    for layer in bert.layers:
        kept = wanted if layer is bert.layers[-1] else None

        def run(x: Tensor, layer: Layer = layer, kept: Tensor | None = kept) -> Tensor:
            mixed = attend(linear(x, layer.qkv), bert.num_heads, groups)
            if kept is not None:
                mixed, x = mixed[kept], x[kept]
            attended = drop(linear(mixed, layer.out)) + x
            attended = _normed(attended, layer.norm_attention, bert.eps)
            widened = F.gelu(linear(attended, layer.up))
            output = drop(linear(widened, layer.down)) + attended
            return _normed(output, layer.norm_output, bert.eps)

        hidden_TH = run_layer(run, hidden_TH)
    return hidden_TH


def _embedded(bert: Bert, ids_T: Tensor, positions_T: Tensor, segments: int | Tensor) -> Tensor:
    """The three embeddings summed, fp32 [T, H]."""
    # F.embedding, not indexing: its gradient adds in one order, whatever the threads.
    of_segment = (
        bert.segments[segments]
        if isinstance(segments, int)
        else F.embedding(segments, bert.segments)
    )
    words = F.embedding(ids_T, bert.words)
    return words + of_segment + F.embedding(positions_T, bert.positions)


def attend_by_length(qkv: Tensor, num_heads: int, groups: Groups) -> Tensor:
    """Attention within each sequence, [T, 3H] -> [T, H]; one call without mask a length.

    On one CPU thread: with two, each has a buffer of its own, and where sizes leave one of them
    unaligned (seen at length 17, head size 8) the last bit depends on who computed the row.
    """
    with _one_thread():
        return attend_freely(qkv, num_heads, groups)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def attend_freely(qkv: Tensor, num_heads: int, groups: Groups, *, dropout: float = 0.0) -> Tensor:
    """As `attend_by_length`, on all threads; the last bits may depend on them.

    With gradients in bf16 on a CPU it is two products and a softmax: the backward of torch's own
    kernel takes four times as long there.
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
        mixed = mix(q, k, v, dropout_p=dropout)
        parts.append(mixed.transpose(1, 2).reshape(count * length, width))
    return torch.cat(parts)


def _products(q: Tensor, k: Tensor, v: Tensor, *, dropout_p: float) -> Tensor:
    """Attention by plain products, [B, heads, L, head size] each: on CPUs torch's own bf16
    backward takes four times as long (tests/benchmarks/train_precisions.py)."""
    weights = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1)
    return F.dropout(weights, dropout_p) @ v


def first_tokens(groups: Groups, device: str | torch.device) -> Tensor:
    """Where each sequence begins, int64 [B]."""
    lengths = torch.tensor([length for count, length in groups for _ in range(count)])
    return (torch.cumsum(lengths, 0) - lengths).to(device)


def pool(hidden_TH: Tensor, groups: Groups, *, pooling: str, normalise: bool) -> Tensor:
    """One vector a sequence, fp32 [B, H]: the mean over all its tokens, or its first."""
    parts = []
    start = 0
    for count, length in groups:
        stop = start + count * length
        states = hidden_TH[start:stop].view(count, length, -1)
        parts.append(states.mean(dim=1) if pooling == "mean" else states[:, 0])
        start = stop
    pooled = torch.cat(parts)
    return F.normalize(pooled, dim=1) if normalise else pooled


def linear(x: Tensor, weights: Linear) -> Tensor:
    """x W^T + b (+ x down^T up^T with an update), [rows, out], of at least MIN_ROWS rows."""
    rows = x.shape[0]
    if rows < MIN_ROWS:
        x = F.pad(x, (0, 0, 0, MIN_ROWS - rows))
    weight, bias, *update = weights
    y = F.linear(x, weight, bias)
    if update:
        down, up = update
        y = y + F.linear(F.linear(x, down), up)
    return y[:rows]


def _normed(x: Tensor, weights: Linear, eps: float) -> Tensor:
    weight, bias = weights
    return F.layer_norm(x, (x.shape[1],), weight, bias, eps)
