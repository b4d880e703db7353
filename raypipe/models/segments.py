"""A duoBERT model's segment table: three segments, although a checkpoint often has two rows."""

import torch
from torch import Tensor

from raypipe.errors import InputError


def with_third_segment(segments: Tensor, choice: str | None) -> Tensor:
    """A duoBERT model's segment table, with at least three rows.

    Source: duobert's checkpoint has two rows for three segments; TensorFlow's one-hot product
    makes id 2 a zero vector there, which is `zero`; `copy` is row 1.

    Raises:
        InputError: less than two rows, two and no choice, or three and a choice.
    """
    if len(segments) < 2:
        raise InputError(
            f"a duoBERT model has three segments, the checkpoint has {len(segments)} segment rows; "
            "name a BERT"
        )
    if len(segments) >= 3:
        if choice is not None:
            raise InputError(
                f"segment_row: {choice} is for checkpoints with two segment rows; this one has "
                f"{len(segments)}, remove it"
            )
        return segments
    if choice is None:
        raise InputError(
            f"a duoBERT model has three segments, the checkpoint has {len(segments)} segment rows; "
            "name the third with segment_row: zero (what duobert's own code computes) or copy "
            "(of row 1)"
        )
    third = torch.zeros_like(segments[:1]) if choice == "zero" else segments[1:2]
    return torch.cat([segments, third])
