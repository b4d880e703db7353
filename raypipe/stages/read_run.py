"""A ranking that others made, as a run of this collection and query set."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run
from raypipe.stages.stage import Beat, Needs, Payload, Rows, Site, Sizing
from raypipe.stages.texts.ids import id_index
from raypipe.storage.payloads.tables import write_table
from raypipe.storage.records import Json, Shard, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored

MAX_SHOWN = 10


@dataclass
class ReadRunStage:
    """The file's lines in the file's order, by query row."""

    name: str
    file: Path
    collection: Stored
    ids: Stored
    queries: Stored
    needs: Needs = Needs()

    @property
    def spec(self) -> StageSpec:
        """The file, the collection and the queries."""
        inputs = {
            "content:run": hash_file(self.file),
            "collection": self.collection.digest,
            "queries": self.queries.digest,
        }
        return StageSpec("read", 1, {"name": self.name}, inputs)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One."""
        return [Shard(0, 0, self.queries.num_rows)]

    def open(self, site: Site) -> Mapping[str, Json]:
        """See Stage."""
        self._scratch = site.scratch
        return {}

    def run(self, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        """The run; ranks and scores as the file has them.

        Raises:
            InputError: ids that the collection or the query set does not have, the first ten.
        """
        beat(())
        table = read_run(self.file)
        query_ids = self.queries.table(schema.QUERIES)["query_id"].to_pylist()
        row_of = {query_id: row for row, query_id in enumerate(query_ids)}
        found = table["query_id"].to_pylist()
        query_rows = np.array([row_of.get(query_id, -1) for query_id in found], np.int32)
        passage_ids = table["passage_id"].to_pylist()
        passage_rows = id_index(self.collection, self.ids).rows_of(passage_ids)
        self._refuse("query", found, query_rows < 0)
        self._refuse("passage", passage_ids, passage_rows < 0)
        order = np.lexsort((table["rank"].to_numpy(), query_rows))
        names = pa.repeat(pa.scalar(self.name, pa.string()), len(order))
        columns = [query_rows[order], passage_rows[order]]
        columns += [table["rank"].take(order), table["score"].take(order), names]
        path = self._scratch / "run.parquet"
        run = pa.table(columns, schema=schema.RUN)
        return Payload(path, {"rows": write_table(path, schema.RUN, [run])})

    def _refuse(self, kind: str, ids: list[str], unknown: NDArray[np.bool_]) -> None:
        missing = sorted({ids[place] for place in np.flatnonzero(unknown)})
        if missing:
            shown = ", ".join(missing[:MAX_SHOWN])
            where = "query set" if kind == "query" else "collection"
            raise InputError(
                f"{self.file}: {len(missing)} {kind} ids are not in the {where}, first {shown}; "
                f"read the run with the {where} it was made for"
            )
