"""A batch of masked inputs, the same in every worker, and parts of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.text.inputs import Inputs, Layouts, make_inputs
from raypipe.training.pretraining.masking import NOT_PREDICTED, Rule, masked
from raypipe.training.pretraining.pairs import pairs
from raypipe.training.pretraining.sources import Chosen, TextSource, rows_of, texts_of

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MaskedBatch:
    """B inputs with T tokens."""

    inputs: Inputs
    """Masked."""
    targets: Int64
    """The true id of each predicted piece, otherwise NOT_PREDICTED, [T]."""
    follows: Int64 | None
    """FOLLOWS or OTHER, [B]; None without next-sentence prediction."""

    @property
    def num_words(self) -> int:
        """Number of predicted pieces."""
        return int((self.targets != NOT_PREDICTED).sum())

    def part(self, rows: Int64) -> "MaskedBatch":
        """Some inputs, in the order of `rows`."""
        lengths = self.inputs.lengths
        starts, own = np.cumsum(lengths) - lengths, lengths[rows]
        before = np.cumsum(own) - own
        source = np.arange(int(own.sum())) + np.repeat(starts[rows] - before, own)
        inputs = self.inputs
        return MaskedBatch(
            Inputs(inputs.ids[source], inputs.positions[source], inputs.segments[source], own),
            self.targets[source],
            None if self.follows is None else self.follows[rows],
        )


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the batches of one training."""

    sources: Sequence[TextSource]
    layouts: Layouts
    rule: Rule
    next_sentence: bool
    total_limit: int
    seed: int

    def batch(self, chosen: Chosen, step: int) -> MaskedBatch:
        """The masked inputs of some stretches; `step` counts from 1, or is MEASURED.

        Each input is a pure function of (seed, step, row) and the text.
        """
        rows = rows_of(self.sources, chosen)
        single = self.layouts["text"]
        ((separator,),) = single.behind
        if self.next_sentence:
            layout = self.layouts["pair"]
            first, second, follows = pairs(
                self.sources,
                chosen,
                rows,
                separator=separator,
                limit=self.total_limit - layout.num_specials,
                seed=self.seed,
                step=step,
            )
            inputs = make_inputs([first, second], layout)
        else:
            inputs = make_inputs([texts_of(self.sources, rows, separator)], single)
            follows = None
        ids, targets = masked(inputs, rows, self.rule, seed=self.seed, step=step)
        return MaskedBatch(
            Inputs(ids, inputs.positions, inputs.segments, inputs.lengths), targets, follows
        )
