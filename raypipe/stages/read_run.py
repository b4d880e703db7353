"""The stage that reads an existing ranking as a run of this collection and query set."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.data.ids import IdIndex
from raypipe.errors import InputError
from raypipe.evaluation.run_files.parts import NotInPartsError, read_parts
from raypipe.evaluation.run_files.runs import read_run
from raypipe.stages.query_blocks import Sides, opened_blocks
from raypipe.stages.stage import Needs, Opened, Site, Sizing
from raypipe.stages.texts.ids import holds_documents, id_index
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
        query_ids = self.sides.queries.table(schema.QUERIES)["query_id"].to_pylist()
        rows = _Rows(
            {query_id: row for row, query_id in enumerate(query_ids)},
            id_index(self.sides.collection, self.ids),
        )
        try:  # in parts, since the ids of a whole run are large
            found = [rows.of(part) for part in read_parts(self.file)]
        except NotInPartsError:
            rows.unknown_queries.clear()
            rows.unknown_passages.clear()
            found = [rows.of(read_run(self.file))]
        self._refuse("query", rows.unknown_queries)
        self._refuse("passage", rows.unknown_passages)
        queries, passages, ranks, scores = (np.concatenate(c) for c in zip(*found, strict=True))
        order = np.lexsort((ranks, queries))
        names = pa.repeat(pa.scalar(self.name, pa.string()), len(order))
        columns = [queries[order], passages[order], ranks[order], scores[order], names]
        return pa.table(columns, schema=schema.RUN)

    def _refuse(self, kind: str, unknown: set[str]) -> None:
        if unknown:
            shown = ", ".join(sorted(unknown)[:MAX_SHOWN])
            where = "query set" if kind == "query" else "collection"
            if kind == "passage" and holds_documents(self.sides.collection):
                kind = "document"
            raise InputError(
                f"{self.file}: {len(unknown)} {kind} ids are not in the {where}, first {shown}; "
                f"read the run with the {where} it was made for"
            )


@dataclass
class _Rows:
    """Turns the ids of a run into rows, and collects the ids that have none."""

    queries: dict[str, int]
    passages: IdIndex
    unknown_queries: set[str] = field(default_factory=set)
    unknown_passages: set[str] = field(default_factory=set)

    def of(self, run: pa.Table) -> tuple[NDArray[np.generic], ...]:
        """Query rows, passage rows, ranks and scores; -1 for an unknown id."""
        query_ids = run["query_id"].to_pylist()
        query_rows = np.array([self.queries.get(query_id, -1) for query_id in query_ids], np.int32)
        passage_ids = run["passage_id"].to_pylist()
        passage_rows = self.passages.rows_of(passage_ids).astype(np.int32)
        self.unknown_queries |= {query_ids[place] for place in np.flatnonzero(query_rows < 0)}
        self.unknown_passages |= {passage_ids[place] for place in np.flatnonzero(passage_rows < 0)}
        return query_rows, passage_rows, run["rank"].to_numpy(), run["score"].to_numpy()
