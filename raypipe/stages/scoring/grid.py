"""The pairs which the cells of a grid need beside those of a recipe."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.ranking.blend import Blend, reranked_at
from raypipe.ranking.candidates import Keys, missing, pairs
from raypipe.ranking.order import begins
from raypipe.stages.scoring.score_table import keys_of
from raypipe.storage.records import Json
from raypipe.storage.store import Stored


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Every pair among the first k1 that a monoBERT stage would have with each of several k0.

    Pairs that the recipe's own duoBERT stage scored are left out.
    """

    first: Stored
    """The run whose candidates the monoBERT stage scored."""
    scored: Stored
    """What it made of them, with at least the largest k0 scored."""
    scored_by: str
    """The name of that stage."""
    tail: str
    """Its tail."""
    pairs: Stored
    """The pairs of the recipe's duoBERT stage."""
    k0s: tuple[int, ...]
    k1: int
    """The largest: the pairs of a smaller k1 are among its own."""
    blend: tuple[Blend, int] | None = None
    """That of the monoBERT stage, with its k0."""

    @cached_property
    def all_keys(self) -> Keys:
        """Those of all queries, sorted."""
        first, run = self.first.whole_table(schema.RUN), self.scored.whole_table(schema.RUN)
        return self._lacking(first, run, self.pairs.whole_table(schema.SCORES))

    @property
    def num_rows(self) -> int:
        """See Candidates."""
        return len(self.all_keys[0])

    def keys(self, start: int, stop: int) -> Keys:
        """See Candidates."""
        first, second, third = (column[start:stop] for column in self.all_keys)
        return first, second, third

    def passages(self) -> NDArray[np.int64]:
        """See Candidates."""
        return np.unique(np.concatenate(self.all_keys[1:]))

    def to_json(self) -> dict[str, Json]:
        """See Candidates."""
        return {"k0s": list(self.k0s), "k1": self.k1, "tail": self.tail}

    def stores(self) -> dict[str, Stored]:
        """See Candidates."""
        return {"first": self.first, "run": self.scored, "pairs": self.pairs}

    def _lacking(self, first: pa.Table, scored: pa.Table, held: pa.Table) -> Keys:
        found: list[Keys] = []
        for k0 in self.k0s:
            run = reranked_at(
                first,
                scored,
                scored_by=self.scored_by,
                depth=k0,
                tail=self.tail,
                blend=self.blend,
            )
            columns = (run[name].to_numpy() for name in ("query_row", "passage_row", "rank"))
            wanted = pairs(*columns, k1=self.k1)
            new = missing(wanted, keys_of(held))
            found.append((wanted[0][new], wanted[1][new], wanted[2][new]))
        first_rows, second, third = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.lexsort((third, second, first_rows))
        kept = order[begins(first_rows[order], second[order], third[order])]
        return first_rows[kept], second[kept], third[kept]
