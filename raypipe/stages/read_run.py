"""The stage that reads an existing ranking as a run of this collection and query set."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run
from raypipe.stages.query_blocks import Sides, opened_blocks
from raypipe.stages.stage import Needs, Opened, Site, Sizing
from raypipe.stages.texts.ids import id_index
from raypipe.storage.records import Shard, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored, spec_over

MAX_SHOWN = 10


@dataclass(frozen=True)
class ReadRunStage:
    """The file's lines in their order, by query row."""

    name: str
    file: Path
    sides: Sides
    ids: Stored
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The file, the collection and the queries."""
        content = {"content:run": hash_file(self.file)}
        params = {"name": self.name}
        return spec_over("read", 1, params, self.sides.stores(), produces="run", content=content)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.sides.queries.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage; the existing file is larger."""
        return 0

    def open(self, site: Site) -> Opened:
        """See Stage; the run, with the file's ranks and scores.

        Its `run` raises InputError for ids that are not in the collection or the query set, with
        the first ten.
        """
        return opened_blocks(site, self._block)

    def _block(self, shard: Shard) -> pa.Table:
        table = read_run(self.file)
        query_ids = self.sides.queries.table(schema.QUERIES)["query_id"].to_pylist()
        row_of = {query_id: row for row, query_id in enumerate(query_ids)}
        found = table["query_id"].to_pylist()
        query_rows = np.array([row_of.get(query_id, -1) for query_id in found], np.int32)
        passage_ids = table["passage_id"].to_pylist()
        passage_rows = id_index(self.sides.collection, self.ids).rows_of(passage_ids)
        self._refuse("query", found, query_rows < 0)
        self._refuse("passage", passage_ids, passage_rows < 0)
        order = np.lexsort((table["rank"].to_numpy(), query_rows))
        names = pa.repeat(pa.scalar(self.name, pa.string()), len(order))
        columns = [query_rows[order], passage_rows[order]]
        columns += [table["rank"].take(order), table["score"].take(order), names]
        return pa.table(columns, schema=schema.RUN)

    def _refuse(self, kind: str, ids: list[str], unknown: NDArray[np.bool_]) -> None:
        missing = sorted({ids[place] for place in np.flatnonzero(unknown)})
        if missing:
            shown = ", ".join(missing[:MAX_SHOWN])
            where = "query set" if kind == "query" else "collection"
            raise InputError(
                f"{self.file}: {len(missing)} {kind} ids are not in the {where}, first {shown}; "
                f"read the run with the {where} it was made for"
            )
