"""Single texts as packed inputs: `[CLS] text [SEP]` of queries and passages in one forward."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from raypipe.text.inputs import Packed
from raypipe.text.pairs import Part

Int64 = NDArray[np.int64]


def single_inputs(
    parts: Sequence[Part], segments: Sequence[int], *, cls_id: int, sep_id: int
) -> tuple[Packed, Int64, Int64]:
    """Inputs of all texts by length, the segment of each token [T], and the order [B].

    `order[i]` is the text, counted over all parts, that stands at place i.
    """
    lengths = np.concatenate([part.counts + 2 for part in parts])
    bases = np.cumsum([0, *(len(part.flat) for part in parts[:-1])])
    sources = [part.starts + base for part, base in zip(parts, bases, strict=True)]
    flat = np.concatenate([part.flat.astype(np.int64) for part in parts])
    of_part = np.concatenate(
        [np.full(len(p.counts), s) for p, s in zip(parts, segments, strict=True)]
    )
    order = np.argsort(lengths, kind="stable")
    lengths, source = lengths[order], np.concatenate(sources)[order]
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
    places = np.repeat(source, lengths) + positions - 1
    is_cls, is_sep = positions == 0, positions == np.repeat(lengths - 1, lengths)
    inner = ~(is_cls | is_sep)
    ids = np.empty(len(positions), np.int64)
    ids[inner] = flat[places[inner]]
    ids[is_cls], ids[is_sep] = cls_id, sep_id
    return Packed(ids, positions, lengths), np.repeat(of_part[order], lengths), order
