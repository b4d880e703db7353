"""Attention in a pass of fixed shape: PyTorch's kernel for sequences of any length, or by length.

The kernel exists on CUDA alone, for bf16 and fp16. Elsewhere, and wherever a trial of it fails,
sequences of equal length are grouped, and each group is one call without a mask.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from raypipe.models.fixed.plan import Int64
from raypipe.models.packed import Attention, Groups, attend_freely, groups_of

Varlen = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]
"""(query, key, value [T, heads, D] each, edges int32 [E], the longest) -> [T, heads, D]."""
TOLERANCE = 2e-2
"""Of a value about 1; bf16 keeps 8 bits, so that each of the two ways rounds by 4e-3."""


def over(varlen: Varlen, edges: Tensor, longest: int) -> Attention:
    """Attention of packed sequences, [T, 3H] -> [T, H], that ignores its groups.

    Args:
        varlen: computes it.
        edges: where sequences begin and end, [E].
        longest: the largest number of tokens of one, whatever those here have.
    """
    narrow = edges.to(torch.int32)  # once for all layers

    def attend(qkv: Tensor, num_heads: int, groups: Groups) -> Tensor:
        tokens, width = qkv.shape[0], qkv.shape[1] // 3
        query, key, value = qkv.view(tokens, 3, num_heads, width // num_heads).unbind(1)
        return varlen(query, key, value, narrow, longest).reshape(tokens, width)

    return attend


def groups_between(edges: Int64) -> Groups:
    """The groups of equal lengths for `attend_freely`, filler's included, from edges on the host.

    Sequences without tokens are left out.
    """
    lengths = np.diff(edges)
    return groups_of(lengths[lengths > 0])


def found_varlen(device: str, dtype: torch.dtype, head_size: int) -> Varlen | None:
    """PyTorch's kernel, if this device computes these heads with it; None if not.

    It is tried on some sequences, one of them empty, and compared with attention by length.
    """
    if torch.device(device).type != "cuda" or dtype not in (torch.bfloat16, torch.float16):
        return None
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # before torch 2.10
        return None

    def varlen(query: Tensor, key: Tensor, value: Tensor, edges: Tensor, longest: int) -> Tensor:
        found = varlen_attn(query, key, value, edges, edges, longest, longest)
        assert isinstance(found, Tensor)  # the log-sum-exp was not asked for
        return found

    return varlen if agrees(varlen, device, dtype, head_size) else None


@torch.inference_mode()
def agrees(varlen: Varlen, device: str, dtype: torch.dtype, head_size: int) -> bool:
    """Whether it computes what attention by length does; no if it does not run here."""
    edges = np.array([0, 1, 1, 18, 145, 190], np.int64)
    draw = torch.Generator().manual_seed(1)
    qkv = torch.randn(int(edges[-1]), 6 * head_size, generator=draw).to(device, dtype)
    groups = groups_between(edges)
    attend = over(varlen, torch.from_numpy(edges).to(device), 256)
    try:
        found = attend(qkv, 2, groups).float()
    except (RuntimeError, TypeError):  # an older GPU, another head size or signature
        return False
    expected = attend_freely(qkv, 2, groups).float()
    return bool(torch.isfinite(found).all()) and float((found - expected).abs().max()) < TOLERANCE


def one_by_one(query: Tensor, key: Tensor, value: Tensor, edges: Tensor, longest: int) -> Tensor:
    """What the kernel computes, sequence by sequence, on any device; for comparisons, slow."""
    out = torch.empty_like(query)
    for start, stop in pairwise(edges.tolist()):
        if start < stop:
            assert stop - start <= longest
            q, k, v = (part[start:stop].transpose(0, 1) for part in (query, key, value))
            out[start:stop] = F.scaled_dot_product_attention(q, k, v).transpose(0, 1)
    return out
