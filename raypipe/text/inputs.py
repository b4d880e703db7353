"""Model inputs sliced from word pieces: [CLS] pieces [SEP], flat, without padding."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Specials:
    """Token ids of [CLS] and [SEP]."""

    cls_id: int
    sep_id: int


@dataclass(frozen=True, slots=True)
class Packed:
    """Sequences one after the other; `lengths` int64 [B] sums to T."""

    ids: Int64
    """Token ids [T]."""
    positions: Int64
    """Position within its sequence, from 0, [T]."""
    lengths: Int64


def input_lengths(offsets: Int64, *, limit: int) -> Int64:
    """Tokens of each row as an input, int64 [rows]: at most `limit` pieces and two specials."""
    return np.minimum(np.diff(offsets), limit) + 2


def encoder_inputs(
    flat: NDArray[np.uint16 | np.uint32],
    offsets: Int64,
    rows: Int64,
    *,
    limit: int,
    cls_id: int,
    sep_id: int,
) -> Packed:
    """`[CLS] pieces [SEP]` of the rows, in their order; empty text is [CLS][SEP].

    Args:
        flat: word pieces of all rows.
        offsets: int64 [N + 1]; row i is `flat[offsets[i]:offsets[i + 1]]`.
        rows: positions in `offsets`, int64 [B].
        limit: word pieces kept of a row, specials not counted.
        cls_id: token id of [CLS].
        sep_id: token id of [SEP].
    """
    num_pieces = np.minimum(offsets[rows + 1] - offsets[rows], limit)
    lengths = num_pieces + 2
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    source = np.repeat(offsets[rows], lengths) + positions - 1
    is_cls = positions == 0
    is_sep = positions == np.repeat(lengths - 1, lengths)
    ids = np.empty(len(positions), np.int64)
    inner = ~(is_cls | is_sep)
    ids[inner] = flat[source[inner]]
    ids[is_cls], ids[is_sep] = cls_id, sep_id
    return Packed(ids, positions, lengths)
