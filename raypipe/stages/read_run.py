"""The stage that reads an existing ranking as a run of this collection and query set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.data.ids import IdIndex
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import NotInPartsError, read_parts, read_run
from raypipe.ranking.order import ranks as ranks_of
from raypipe.stages.query_blocks import Sides, opened_blocks
from raypipe.stages.stage import Needs, Opened, Site, Sizing
from raypipe.stages.texts.ids import holds_documents, id_index
from raypipe.storage.records import Json, Shard, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over
from raypipe.vocabulary import BreakTies

MAX_SHOWN = 10


@dataclass(frozen=True)
class ReadRunStage:
    """The file's lines in their order, by query row."""

    name: str
    file: Path
    sides: Sides
    ids: Stored
    of_larger: bool = False
    """Whether the file ranks a larger collection: lines of passages that are not here go."""
    break_ties: BreakTies = "id"
    """How the file's equal scores are ordered; see `read_run`."""
    unjudged: frozenset[str] = frozenset()
    """Queries of the queries file that the set leaves out; so do the run's lines of them."""
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The file, the collection and the queries."""
        content = {"content:run": hash_file(self.file)}
        params: dict[str, Json] = {"name": self.name}
        params |= {"of_larger": True} if self.of_larger else {}
        params |= {"break_ties": "rank"} if self.break_ties == "rank" else {}
        return spec_over("read", 1, params, self.sides.stores(), produces="run", content=content)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, self.sides.queries.num_rows)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage; the existing file is larger."""
        return 0

    def open(self, site: Site) -> Opened:
        """See Stage; the run, with the file's ranks and scores.

        With `of_larger`, ranks count the lines that are kept, and the facts say how many lines the
        file has and how many of them were left out. Its `run` raises InputError for ids that are
        not in the collection or the query set, with the first ten, and if no line is kept.
        """
        return opened_blocks(site, self._block)

    def _block(self, shard: Shard) -> pa.Table | tuple[pa.Table, Mapping[str, Json]]:
        query_ids = self.sides.queries.table(schema.QUERIES)["query_id"].to_pylist()
        rows = _Rows(
            {query_id: row for row, query_id in enumerate(query_ids)},
            id_index(self.sides.collection, self.ids),
            self.of_larger,
        )
        try:  # in parts, since the ids of a whole run are large
            found = [rows.of(part) for part in read_parts(self.file, break_ties=self.break_ties)]
        except NotInPartsError:
            rows.unknown_queries.clear()
            rows.unknown_passages.clear()
            found = [rows.of(read_run(self.file, break_ties=self.break_ties))]
        self._refuse("query", rows.unknown_queries - self.unjudged)
        self._refuse("passage", rows.unknown_passages)
        queries, passages, ranks, scores = (np.concatenate(c) for c in zip(*found, strict=True))
        order = np.lexsort((ranks, queries))
        order = order[queries[order] >= 0]
        columns = [column[order] for column in (queries, passages, ranks, scores)]
        if not self.of_larger:
            return self._table(columns)
        kept = columns[1] >= 0
        if not kept.any():
            raise InputError(
                f"{self.file}: expected a ranking of a larger collection, found no line of this one"
            )
        columns = [column[kept] for column in columns]
        columns[2] = ranks_of(columns[0])
        return self._table(columns), {"lines": len(kept), "left_out": int((~kept).sum())}

    def _table(self, columns: Sequence[NDArray[np.generic]]) -> pa.Table:
        names = pa.repeat(pa.scalar(self.name, pa.string()), len(columns[0]))
        return pa.table([*columns, names], schema=schema.RUN)

    def _refuse(self, kind: str, unknown: set[str]) -> None:
        if kind == "passage" and holds_documents(self.sides.collection):
            kind = "document"
        problems = unknown_ids(self.file, kind, unknown)
        if problems:
            raise InputError(problems)


def unknown_ids(file: Path, kind: str, unknown: set[str]) -> list[str]:
    """What is said of a run whose queries, passages or documents are none of the recipe's."""
    if not unknown:
        return []
    shown = ", ".join(sorted(unknown)[:MAX_SHOWN])
    where = "query set" if kind == "query" else "collection"
    remedy = "; larger_collection of a recipe's read stage leaves such lines out"
    return [
        f"{file}: {len(unknown)} {kind} ids are not in the {where}, first {shown}; "
        f"read the run with the {where} it was made for{remedy if kind != 'query' else ''}"
    ]


@dataclass
class _Rows:
    """Turns the ids of a run into rows, and collects the ids that have none."""

    queries: dict[str, int]
    passages: IdIndex
    of_larger: bool
    unknown_queries: set[str] = field(default_factory=set)
    unknown_passages: set[str] = field(default_factory=set)

    def of(self, run: pa.Table) -> tuple[NDArray[np.generic], ...]:
        """Query rows, passage rows, ranks and scores; -1 for an unknown id."""
        query_ids = run["query_id"].to_pylist()
        query_rows = np.array([self.queries.get(query_id, -1) for query_id in query_ids], np.int32)
        passage_ids = run["passage_id"].to_pylist()
        passage_rows = self.passages.rows_of(passage_ids).astype(np.int32)
        self.unknown_queries |= {query_ids[place] for place in np.flatnonzero(query_rows < 0)}
        if not self.of_larger:
            unknown = np.flatnonzero(passage_rows < 0)
            self.unknown_passages |= {passage_ids[place] for place in unknown}
        return query_rows, passage_rows, run["rank"].to_numpy(), run["score"].to_numpy()
