"""The stage that reads an existing ranking as a run of this collection and query set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.data.ids import IdIndex
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import (
    NotInPartsError,
    is_unordered,
    read_parts,
    read_run,
)
from raypipe.ranking.order import ranks as ranks_of
from raypipe.stages.excluded import NOTHING, Excluded
from raypipe.stages.ids import holds_documents, id_index
from raypipe.stages.tables import Sides, TableStage
from raypipe.storage.records import Json, Shard, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over
from raypipe.vocabulary import BreakTies

MAX_SHOWN = 10


def read_stage(
    name: str,
    file: Path,
    sides: Sides,
    ids: Stored,
    *,
    of_larger: bool = False,
    break_ties: BreakTies = "id",
    unjudged: frozenset[str] = frozenset(),
    excluded: Excluded = NOTHING,
) -> TableStage:
    """The file's lines in their order, by query row, with its ranks and scores.

    With `of_larger`, ranks count the lines that are kept, and the facts say how many lines the
    file has and how many of them were left out. Of candidates without ranks and scores, in the
    order of the file, the facts say how many the longest list has: `unordered`. It raises
    InputError for ids that are not in the collection or the query set, with the first ten, and if
    no line is kept.

    Args:
        name: of the run.
        file: see `read_run`.
        sides: the queries, and the passages or documents.
        ids: the id index of these.
        of_larger: whether the file ranks a larger collection: lines of passages that are not here
            are left out.
        break_ties: how the file's equal scores are ordered; see `read_run`.
        unjudged: queries of the queries file that the set leaves out; so are the run's lines of
            them.
        excluded: what is left out too; ranks then count the lines that are kept.
    """
    params = {"name": name, "of_larger": of_larger, "break_ties": break_ties}

    def block(shard: Shard) -> pa.Table | tuple[pa.Table, Mapping[str, Json]]:
        query_ids = sides.queries.table(schema.QUERIES)["query_id"].to_pylist()
        rows = _Rows(
            {query_id: row for row, query_id in enumerate(query_ids)},
            id_index(sides.collection, ids),
            of_larger,
        )
        try:  # in parts, since the ids of a whole run are large
            parts = read_parts(file, break_ties=break_ties, unordered=True)
            parts_of_run = [rows.of(part) for part in parts]
        except NotInPartsError:
            rows.unknown_queries.clear()
            rows.unknown_passages.clear()
            parts_of_run = [rows.of(read_run(file, break_ties=break_ties, unordered=True))]
        kind = "document" if holds_documents(sides.collection) else "passage"
        for each, unknown in (
            ("query", rows.unknown_queries - unjudged),
            (kind, rows.unknown_passages),
        ):
            if problems := unknown_ids(file, each, unknown):
                raise InputError(problems)
        queries, passages, ranks, scores = (
            np.concatenate(c) for c in zip(*parts_of_run, strict=True)
        )
        order = np.lexsort((ranks, queries))
        order = order[queries[order] >= 0]
        columns = [column[order] for column in (queries, passages, ranks, scores)]
        if not of_larger:
            run = excluded.cut(_table(columns, name))
            return run, _unordered(file, run)
        stays = columns[1] >= 0
        if not stays.any():
            raise InputError(
                f"{file}: expected a ranking of a larger collection, found no line of this one"
            )
        columns = [column[stays] for column in columns]
        columns[2] = ranks_of(columns[0])
        facts = {"lines": len(stays), "left_out": int((~stays).sum())}
        run = excluded.cut(_table(columns, name))
        return run, {**facts, **_unordered(file, run)}

    stores = sides.stores() | excluded.stores()

    def spec() -> StageSpec:
        content = {"content:run": hash_file(file)}
        return spec_over("read", 2, params, stores, produces="run", content=content)

    def facts() -> dict[str, Json]:
        query_ids = read_run(file, unordered=True)["query_id"]
        num_lines, longest = len(query_ids), pc.max(query_ids.value_counts().field(1)).as_py()
        unordered = {"unordered": longest} if is_unordered(file) else {}
        left_out = {"left_out": 0, "lines": num_lines} if of_larger else {}
        return {"rows": num_lines, **left_out, **unordered}

    return TableStage(name, spec, stores, block, divided=False, expected_facts=facts)


def _table(columns: Sequence[NDArray[np.generic]], name: str) -> pa.Table:
    names = pa.repeat(pa.scalar(name, pa.string()), len(columns[0]))
    return pa.table([*columns, names], schema=schema.RUN)


def _unordered(file: Path, run: pa.Table) -> dict[str, Json]:
    longest = pc.max(run["rank"]).as_py() or 0
    return {"unordered": longest} if is_unordered(file) else {}


def unknown_ids(file: Path, kind: str, unknown: set[str]) -> list[str]:
    """The problem of a run whose queries, passages or documents are none of the recipe's."""
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
