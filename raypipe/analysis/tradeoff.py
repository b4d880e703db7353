"""Quality against inferences: the cells of a grid over k0, k1 and the aggregation.

Source: Nogueira et al. 2019 (Multi-stage document ranking with BERT), Figures 2 to 4. A cell is
computed from stored scores alone, and only if every score that it needs is there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.ranking.by_key import aggregate_by_key
from raypipe.ranking.candidates import Keys, pairs

K0S = (50, 100, 200, 500, 1000)
K1S = (10, 20, 30, 40, 50)
DRAWS = (10, 20, 30, 40)
"""m of SAMPLE."""
NUM_SEEDS = 10
"""Draws whose mean is told for SAMPLE, with seeds from 0."""
METHODS = ("sum", "binary", "min", "max")


@dataclass(frozen=True, slots=True)
class Setting:
    """One cell: which candidates are scored and how."""

    k0: int
    k1: int = 0
    """0: no second reranker."""
    method: str = ""
    m: int | None = None
    """Pairs drawn for each candidate, for SAMPLE."""

    @property
    def on_paper(self) -> int:
        """Inferences a query on the paper's axes: k0, and k1 (k1 - 1) or k1 (m - 1) pairs."""
        if not self.k1:
            return self.k0
        return self.k0 + self.k1 * ((self.k1 if self.m is None else self.m) - 1)


@dataclass(frozen=True, slots=True)
class Cell:
    """A setting with what it costs and gives."""

    setting: Setting
    singles: float
    """Inferences a query of the first reranker that these queries' lists ask for."""
    pairs: float
    """Inferences a query of the second: k1 min(m, k1 - 1) where lists are long enough."""
    means: Mapping[str, float]
    """Measure -> mean over the topics; for SAMPLE the mean over its draws."""
    spread: float | None = None
    """Standard deviation of the first measure over the draws of SAMPLE."""

    @property
    def needed(self) -> float:
        """Inferences a query that are really needed."""
        return self.singles + self.pairs


def settings(k0s: Iterable[int], k1s: Iterable[int]) -> list[Setting]:
    """The grid: for each k0 the first reranker alone, then every k1 with every aggregation."""
    found = []
    for k0 in k0s:
        found.append(Setting(k0))
        for k1 in k1s:
            found += [Setting(k0, k1, method) for method in METHODS]
            found += [Setting(k0, k1, "sample", m) for m in DRAWS if m < k1 - 1]
    return found


def wanted_pairs(run: pa.Table, setting: Setting, seed: int) -> Keys:
    """The pairs that a setting asks for of a run (schema.RUN), sorted."""
    columns = (run[name].to_numpy() for name in ("query_row", "passage_row", "rank"))
    return pairs(*columns, k1=setting.k1, sample=setting.m, seed=seed)


def cell_run(
    run: pa.Table,
    setting: Setting,
    wanted: Keys,
    held: Keys,
    probabilities: NDArray[np.float32],
    *,
    tail: str = "keep",
) -> pa.Table:
    """What the second reranker makes of the first one's run (schema.RUN), from held pairs.

    `wanted` are the setting's pairs; `tail`, `keep` or `drop`, is that of the stage that
    aggregates them.

    Raises:
        InputError: a pair that it needs was not scored.
    """
    return aggregate_by_key(
        run,
        wanted,
        held,
        probabilities,
        method=setting.method,
        k=setting.k1,
        tail=tail,
        scored_by="duo",
    )


def cheapest(cells: Sequence[Cell], measure: str, loss: float) -> Cell | None:
    """Of the cells whose measure is within `loss` of the best one, that with fewest inferences.

    Ties go to the higher measure, then to the first. None if there are no cells.
    """
    best = max((cell.means[measure] for cell in cells), default=0.0)
    near = [cell for cell in cells if cell.means[measure] >= best - loss]
    return min(near, key=lambda cell: (cell.needed, -cell.means[measure]), default=None)
