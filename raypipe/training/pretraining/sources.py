"""The stretches of all training sets: which are trained, and which are held out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.text.inputs import TextSlice
from raypipe.training.examples.sampler import permuted
from raypipe.training.job import Job
from raypipe.training.pretraining.stretches import Stretches, map_stretches, read
from raypipe.training.steps.texts import Rows, gathered

Int64 = NDArray[np.int64]
HELD_OUT_EPOCH = -1
"""What seeds the order whose first stretches are held out; the epochs of a training are others."""


@dataclass(frozen=True, slots=True)
class TextSource:
    """The stretches of one training set, in a seeded order: the first ones are held out."""

    table: Stretches
    tokens: Rows
    held_out: int
    seed: int
    before: int = 0
    """Number of stretches of the sets before it: a row is a stretch's number over all sets."""

    def numbers(self, places: Int64) -> Int64:
        """The stretches at these places of the seeded order."""
        size = self.table.num_stretches
        return permuted(places, size=size, seed=self.seed, epoch=HELD_OUT_EPOCH)

    @property
    def num_trained(self) -> int:
        """Number of stretches that are not held out."""
        return self.table.num_stretches - self.held_out


@dataclass(frozen=True, slots=True)
class Chosen:
    """Stretches of several sets: the number of each one's set, and its place there, [B] each."""

    of_source: Int64
    places: Int64


def trained(sources: Sequence[TextSource], numbers: Int64) -> Chosen:
    """The stretches with these numbers among those of all sets that are not held out."""
    edges = np.cumsum([source.num_trained for source in sources])
    of_source = np.searchsorted(edges, numbers, side="right")
    held = np.array([source.held_out for source in sources])
    within = numbers - np.concatenate([[0], edges])[of_source]
    return Chosen(of_source.astype(np.int64), within + held[of_source])


def rows_of(sources: Sequence[TextSource], chosen: Chosen) -> Int64:
    """Each stretch's row: its number over all sets in the order of the text, int64 [B]."""
    rows = np.empty(len(chosen.places), np.int64)
    for number, source in enumerate(sources):
        own = chosen.of_source == number
        rows[own] = source.numbers(chosen.places[own]) + source.before
    return rows


def texts_of(sources: Sequence[TextSource], rows: Int64, separator: int) -> TextSlice:
    """The texts of rows, in their order."""
    starts = np.array([source.before for source in sources])
    of_source = np.searchsorted(starts, rows, side="right") - 1
    texts = [_Stretched(source, separator) for source in sources]
    return gathered(texts, of_source, rows - starts[of_source])


@dataclass(frozen=True, slots=True)
class _Stretched:
    """A set's stretches as rows of text."""

    source: TextSource
    separator: int

    def part(self, rows: Int64) -> TextSlice:
        return read(self.source.table, self.source.tokens, self.separator, rows)


def text_sources(job: Job) -> list[TextSource]:
    """The training sets as mapped sources.

    Raises:
        InputError: a set has no more stretches than are held out.
    """
    masking = job.recipe.masking
    assert masking is not None
    found: list[TextSource] = []
    before = 0
    for name, stores in zip(job.recipe.train, job.texts, strict=True):
        table = map_stretches(stores.stretches.path(stores.stretches.manifest.records[0]))
        if table.num_stretches <= masking.held_out:
            raise InputError(
                f"masking.held_out: {masking.held_out:,} inputs of train.{name}, which has "
                f"{table.num_stretches:,}; hold out fewer"
            )
        tokens = TokenRows(stores.tokens)
        found.append(TextSource(table, tokens, masking.held_out, job.recipe.seed, before))
        before += table.num_stretches
    return found
