"""Which word pieces of an input are predicted, and what stands in their places."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.text.inputs import Inputs

Int64 = NDArray[np.int64]
MASKED, RANDOM = 0.8, 0.1
"""Of the predicted pieces, those replaced by [MASK] and by a random piece; the others stay."""
PAIR, MASK = 0, 1
"""What is drawn: how a pair is cut, or what is masked."""
MEASURED = 0
"""The step whose draws held-out inputs have; the steps of a training count from 1."""
NOT_PREDICTED = -1


def generator(purpose: int, seed: int, step: int, row: int) -> np.random.Generator:
    """The draws for one purpose of one row in one step: a pure function of these numbers."""
    return np.random.default_rng([purpose, seed, step, row])


@dataclass(frozen=True, slots=True)
class Rule:
    """What masking needs to know of the recipe and of the tokenizer."""

    share: float
    mask_id: int
    num_words: int
    """Size of the vocabulary, from which a random piece is drawn, as in BERT's own code."""
    special_ids: tuple[int, ...]
    """Tokens that are never predicted: [CLS] and [SEP]."""


def masked(inputs: Inputs, rows: Int64, rule: Rule, *, seed: int, step: int) -> tuple[Int64, Int64]:
    """(token ids with some replaced, the true ids of predicted pieces), int64 [T] each.

    Of an input's n word pieces, max(1, round(share n)) are predicted, halves up; all others have
    NOT_PREDICTED. What is drawn for an input depends on (seed, step, row) alone.

    Source: Devlin et al. 2019, section 3.1 and appendix A.1. BERT's own code counts [CLS] and [SEP]
    in n and predicts at most 20 (128 tokens) or 80 (512 tokens) pieces; this does neither.

    Args:
        inputs: B inputs, one after the other.
        rows: each input's number, [B].
        rule: see Rule.
        seed: the training's seed.
        step: the step, from 1, or MEASURED.
    """
    ids = inputs.ids.copy()
    targets = np.full(len(ids), NOT_PREDICTED, np.int64)
    starts = np.cumsum(inputs.lengths) - inputs.lengths
    is_piece = ~np.isin(inputs.ids, rule.special_ids)
    for start, length, row in zip(starts, inputs.lengths, rows, strict=True):
        pieces = start + np.flatnonzero(is_piece[start : start + length])
        count = min(len(pieces), max(1, int(rule.share * len(pieces) + 0.5)))
        drawn = generator(MASK, seed, step, int(row))
        chosen = np.sort(drawn.permutation(pieces)[:count])
        fate, words = drawn.random(count), drawn.integers(0, rule.num_words, count)
        targets[chosen] = ids[chosen]
        ids[chosen[fate < MASKED]] = rule.mask_id
        is_random = (fate >= MASKED) & (fate < MASKED + RANDOM)
        ids[chosen[is_random]] = words[is_random]
    return ids, targets
