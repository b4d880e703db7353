"""What the host says of a batch in a pass of fixed shape: where its pieces lie, where rows end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.text.batches import batches
from raypipe.text.inputs import Layout, TextSlice

Int64 = NDArray[np.int64]

TOKENS_A_ROW = 16
"""A pass has room for a row in so many tokens: a passage has about 70, a query about 8."""


@dataclass(frozen=True, slots=True)
class FixedShape:
    """The sizes that every forward pass of a model has, however little of it is used."""

    tokens: int
    """T, of which the batch's come first; the others are filler."""
    longest: int
    """The largest number of tokens of one sequence; the filler is cut into sequences as well."""
    texts: int = 1
    """Texts of an input."""

    @property
    def rows(self) -> int:
        """R, the largest number of inputs."""
        return max(16, self.tokens // TOKENS_A_ROW)

    @property
    def num_edges(self) -> int:
        """E: the beginning of every input and of every sequence of filler, and the end."""
        return self.rows + -(-self.tokens // self.longest) + 1

    @property
    def plan_size(self) -> int:
        """Numbers in a plan."""
        return 2 * self.texts * self.rows + self.num_edges

    def batches(self, lengths: Int64, *, budget_tokens: int) -> Iterator[Int64]:
        """Like `text.batching.batches`, of at most R inputs each."""
        for batch in batches(lengths, budget_tokens=min(budget_tokens, self.tokens)):
            for start in range(0, len(batch), self.rows):
                yield batch[start : start + self.rows]


def write_plan(plan: Int64, texts: Sequence[TextSlice], layout: Layout, shape: FixedShape) -> Int64:
    """Fill `plan`, int64 [plan_size], for a batch of at most R inputs; the edges in it, [E].

    The plan is starts [texts, R], counts [texts, R] and edges [E]: sequence i has the tokens
    `edges[i]` to `edges[i + 1]`, so unused inputs are empty. Filler ends at T.
    """
    num_inputs, room = len(texts[0].counts), shape.rows
    assert len(texts) == shape.texts and num_inputs <= room
    starts, counts, edges = parts_of(plan, shape)
    starts[:, num_inputs:], counts[:, num_inputs:] = 0, 0
    for number, text in enumerate(texts):
        starts[number, :num_inputs], counts[number, :num_inputs] = text.starts, text.counts
    edges[0] = 0
    edges[1 : num_inputs + 1] = np.cumsum(layout.lengths([text.counts for text in texts]))
    total = int(edges[num_inputs])
    assert total <= shape.tokens
    edges[num_inputs + 1 : room + 1] = total
    behind = total + shape.longest * np.arange(1, shape.num_edges - room)
    edges[room + 1 :] = np.minimum(behind, shape.tokens)
    return edges


def parts_of(plan: Int64, shape: FixedShape) -> tuple[Int64, Int64, Int64]:
    """Views of a plan: starts [texts, R], counts [texts, R], edges [E]; a tensor's likewise."""
    size = shape.texts * shape.rows
    starts = plan[:size].reshape(shape.texts, shape.rows)
    counts = plan[size : 2 * size].reshape(shape.texts, shape.rows)
    return starts, counts, plan[2 * size :]
