"""A stand-in for the kernel of attention for sequences of any length, which CUDA alone has."""

from itertools import pairwise

import torch
import torch.nn.functional as F


def one_by_one(query, key, value, edges, longest):
    """What the kernel computes, sequence by sequence, on any device."""
    out = torch.empty_like(query)
    for start, stop in pairwise(edges.tolist()):
        if start < stop:
            assert stop - start <= longest
            q, k, v = (part[start:stop].transpose(0, 1) for part in (query, key, value))
            out[start:stop] = F.scaled_dot_product_attention(q, k, v).transpose(0, 1)
    return out
