"""A queries file as a store: query row <-> original id and text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from raypipe import schema
from raypipe.data.queries import read_queries
from raypipe.errors import LEAVE_INPUTS, InputError
from raypipe.stages.stage import Beat, Opened, Payload, Rows, Site, Sizing, Stage
from raypipe.storage.payloads import write_table
from raypipe.storage.records import Shard, canonical, digest, hash_file
from raypipe.storage.spec import StageSpec


@dataclass(frozen=True)
class QueriesStage(Stage):
    """Queries in file order; with `only`, those whose id is in it."""

    file: Path
    only: frozenset[str] | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> StageSpec:
        """The file's hash, and which of its queries are kept."""
        kept = None if self.only is None else digest(canonical(sorted(self.only)))
        content = {"content:queries": hash_file(self.file)}
        return StageSpec("queries", 2, {"only": kept}, content, "queries")

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard: query sets are small compared with collections."""
        return [Shard(0, 0, len(self._read(self.file)))]

    def open(self, site: Site) -> Opened:
        """Open it: the query set as one table of schema.QUERIES."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        from raypipe.storage.copies import on_this_node

        queries = self._read(on_this_node(self.file, self.sources, scratch))
        if len(queries) != shard.num_rows:
            raise InputError(
                f"{self.file}: expected {shard.num_rows} queries, as planned, found "
                f"{len(queries)}. {LEAVE_INPUTS}"
            )
        path = scratch / "queries.parquet"
        columns = [[query_id for query_id, _ in queries], [text for _, text in queries]]
        table = pa.table(columns, schema=schema.QUERIES)
        return Payload(path, {"rows": write_table(path, schema.QUERIES, [table])})

    def _read(self, file: Path) -> list[tuple[str, str]]:
        queries = read_queries(file)
        return [q for q in queries if self.only is None or q[0] in self.only]
