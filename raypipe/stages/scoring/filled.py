"""The stage that holds the pairs which the cells of a grid need beside those of a recipe."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.ranking.blend import Blend, reranked_at
from raypipe.ranking.candidates import Keys, missing, pairs
from raypipe.ranking.order import begins
from raypipe.stages.query_blocks import Sides, opened_blocks, query_blocks
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.scoring.candidates import SCORE_BYTES, Part, keys_of
from raypipe.stages.scoring.rerank import scored_pairs
from raypipe.stages.stage import Needs, Opened, Site, Sizing
from raypipe.storage.records import Json, Shard, canonical, digest
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over


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

    def keys(self, run: pa.Table) -> Keys:
        """Those of all queries of `scored`, whole (schema.RUN), sorted; see Asking."""
        return self._lacking(
            self.first.whole_table(schema.RUN), run, self.pairs.whole_table(schema.SCORES)
        )

    def keys_of_queries(self, start: int, stop: int) -> Keys:
        """Those of query rows [start, stop), sorted."""
        return self._lacking(
            read_queries_of_run(self.first, start, stop),
            read_queries_of_run(self.scored, start, stop),
            read_queries_of_run(self.pairs, start, stop, schema.SCORES),
        )

    def num_candidates(self, run: Stored) -> int:
        """See Asking."""
        return len(self.k0s) * run.num_rows * self.k1 * (self.k1 - 1)

    def digest(self, run: Stored) -> str:
        """See Asking."""
        stores = {name: stored.identity for name, stored in self.stores().items()}
        return digest(canonical({**self.to_json(), **stores}))

    def to_json(self) -> dict[str, Json]:
        """The settings in a fingerprint."""
        return {"k0s": list(self.k0s), "k1": self.k1, "tail": self.tail}

    def stores(self) -> dict[str, Stored]:
        """What it reads, by the names in a fingerprint."""
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


@dataclass(frozen=True)
class FilledStage:
    """p(i, j) of the pairs of a grid that the recipe did not score."""

    name: str
    grid: Grid
    sides: Sides
    parts: tuple[Part, ...] = ()
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    def of(self, parts: Sequence[Part]) -> "FilledStage":
        """The stage that selects from these parts of a table of scores."""
        return replace(self, parts=tuple(parts))

    @property
    def spec(self) -> StageSpec:
        """The grid and its stores: the recipe's pairs say what a score depends on."""
        stores = self.grid.stores() | self.sides.stores()
        return spec_over("filled", 1, self.grid.to_json(), stores, produces="pairs")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """Query blocks."""
        return query_blocks(self.sides.queries, sizing)

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return SCORE_BYTES * self.grid.num_candidates(self.grid.scored)

    def open(self, site: Site) -> Opened:
        """See Stage; schema.SCORES of each block, sorted; pairs in quarantine are left out."""
        return opened_blocks(site, self._block, schema.SCORES)

    def _block(self, shard: Shard) -> tuple[pa.Table, dict[str, Json]]:
        wanted = self.grid.keys_of_queries(shard.start, shard.stop)
        return scored_pairs(self.parts, wanted, shard, self.name)
