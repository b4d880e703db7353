"""The stage that cuts a collection's word pieces into stretches."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from raypipe.errors import InputError
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.storage.payloads import map_tokens
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over
from raypipe.training.pretraining.stretches import cut, write_stretches

SEMANTICS = 1
BYTES = 16
"""Of a stretch in the table."""


@dataclass(frozen=True)
class StretchesStage:
    """The stretches of one training set; their text stays in the token store."""

    tokens: Stored
    limit: int
    """Pieces of a stretch at most."""
    joined: bool
    least: int
    """Pieces of a stretch at least."""
    name: str = ""
    """The name of the set, for messages."""
    needs: Needs = field(default_factory=Needs)
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The word pieces and how they are cut."""
        params = {"limit": self.limit, "joined": self.joined, "least": self.least}
        stores = {"tokens": self.tokens}
        return spec_over("stretches", SEMANTICS, params, stores, produces="examples")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.tokens.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return BYTES * (num_rows + self.tokens.num_bytes // (2 * self.limit))

    def open(self, site: Site) -> Opened:
        """See Stage; the table, with the number of stretches and of their pieces as facts.

        Its `run` raises InputError if no stretch is left.
        """
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        counts = []
        for record in self.tokens.manifest.records:
            beat(())
            _, offsets = map_tokens(self.tokens.path(record))
            counts.append(np.diff(offsets))
        table = cut(np.concatenate(counts), limit=self.limit, joined=self.joined, least=self.least)
        if not table.num_stretches:
            raise InputError(
                f"train.{self.name}: the collection's text gives no input of at least {self.least} "
                "word pieces; name a collection with text"
            )
        path = scratch / "stretches.safetensors"
        write_stretches(path, table)
        pieces = int(table.counts.sum(dtype=np.int64))
        facts = {"rows": shard.num_rows, "examples": table.num_stretches, "pieces": pieces}
        return Payload(path, facts)
