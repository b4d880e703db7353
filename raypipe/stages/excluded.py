"""Passages that take no place in a query's rankings: the stage that finds them, and their removal.

A search fetches as many places more as a query excludes passages; `cut` then removes these. So a
run is that of a search of all passages without the excluded ones, cut at the depth.

Source: BEIR's `evaluate(ignore_identical_ids=True)`, and the `excluded_ids` of BRIGHT's queries.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import foreign, schema
from raypipe.config.fields import OWN_ID
from raypipe.data.files import parsed_lines
from raypipe.data.formats.fields import checked_id, json_id, json_object
from raypipe.data.formats.json_lines import OBJECTS, names_of
from raypipe.data.formats.tables import is_parquet, read_columns
from raypipe.data.qrels import read_qrels
from raypipe.data.records import Problems, lines
from raypipe.errors import InputError, shown
from raypipe.stages.ids import id_index
from raypipe.stages.tables import TableStage
from raypipe.storage.compression import open_binary
from raypipe.storage.records import Json, Shard, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

Pair = tuple[str, str]
"""A query's id and a passage's."""
PAIR = {"query_id": foreign.QUERY_ID, "passage_id": foreign.PASSAGE_ID}


@dataclass(frozen=True, slots=True)
class Excluded:
    """The passages or documents without a place in a query set's rankings; none without a store."""

    stored: Stored | None = None

    def stores(self) -> dict[str, Stored]:
        """The store, by its name in the specs of what reads it."""
        return {} if self.stored is None else {"excluded": self.stored}

    def depth(self, depth: int, start: int, stop: int, most: int | None = None) -> int:
        """How many places a search of the queries [start, stop) fetches, to fill `depth`.

        `most` is the number of passages: no ranking holds more, whatever depth was asked for.
        """
        places = depth + int(self.counts(start, stop).max(initial=0))
        return places if most is None else max(1, min(places, most))

    def counts(self, start: int, stop: int) -> NDArray[np.int64]:
        """How many each of the queries [start, stop) excludes."""
        query_rows, _ = self._pairs(start, stop)
        return np.bincount(query_rows - start, minlength=stop - start)

    def keeps(
        self, query_rows: NDArray[np.integer], passage_rows: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether each line of a ranking stays, bool [N]."""
        if self.stored is None or not len(query_rows):
            return np.ones(len(query_rows), bool)
        excluded = _keys(*self._pairs(int(query_rows.min()), int(query_rows.max()) + 1))
        lines = _keys(query_rows, passage_rows)
        places = np.searchsorted(excluded, lines)  # a few pairs among many lines
        stays: NDArray[np.bool_] = np.append(excluded, -1)[places] != lines
        return stays

    def cut(self, run: pa.Table, depth: int | None = None) -> pa.Table:
        """The run (schema.RUN) without what is excluded, ranked anew, of each query the first
        `depth`; None keeps all."""
        if self.stored is None:
            return run
        from raypipe.stages.run_tables import run_table

        columns = [run[name].to_numpy() for name in ("query_row", "passage_row", "score")]
        stays = self.keeps(columns[0], columns[1])
        columns = [column[stays] for column in columns]
        names = run["scored_by"].filter(pa.array(stays))
        table = run_table(*columns, scored_by="").set_column(4, "scored_by", names)
        return table if depth is None else table.filter(pa.array(table["rank"].to_numpy() <= depth))

    def _pairs(self, start: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(query rows, passage rows) of the queries [start, stop)."""
        if self.stored is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        from raypipe.stages.run_tables import read_queries_of_run

        table = read_queries_of_run(self.stored, start, stop, schema.EXCLUDED)
        return table["query_row"].to_numpy().astype(np.int64), table["passage_row"].to_numpy()


NOTHING = Excluded()


def _keys(query_rows: NDArray[np.integer], passage_rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """One int64 a pair; they sort by query, then passage."""
    return (query_rows.astype(np.int64) << 32) | passage_rows


@dataclass(frozen=True, slots=True)
class Documents:
    """The documents of a collection: a document's id stands for all its passages."""

    stored: Stored
    ids: Stored
    passage_map: Stored


def excluded_stage(
    exclude: str,
    queries: Stored,
    collection: Stored,
    ids: Stored,
    documents: Documents | None = None,
) -> TableStage:
    """Pairs without a place in the rankings of these queries, schema.EXCLUDED, in one shard.

    Ids that the collection lacks, and queries that are none of the set's, are left out. The facts
    say how many pairs were given, `pairs`, how many of these are of the set's queries, `of_set`,
    and how many of those name something in the collection, `present`.

    Args:
        exclude: `own-id`, or a file; see `read_excluded`.
        queries: the query set.
        collection: its passages, or the documents that are ranked.
        ids: the id index of these.
        documents: of a collection of passages, if these are parts of documents.
    """
    from raypipe.stages.documents.passage_map import PassageMap

    file = None if exclude == OWN_ID else Path(exclude)
    stores = {"queries": queries, "collection": collection, "ids": ids}
    if documents is not None:
        stores |= {"documents": documents.stored, "document-ids": documents.ids}
        stores |= {"map": documents.passage_map}

    def block(shard: Shard) -> tuple[pa.Table, Mapping[str, Json]]:
        query_ids = queries.table(schema.QUERIES)["query_id"].to_pylist()
        rows = {query_id: row for row, query_id in enumerate(query_ids)}
        pairs = [(each, each) for each in query_ids] if file is None else read_excluded(file)
        of_set = [(rows[query], name) for query, name in pairs if query in rows]
        query_rows = np.array([row for row, _ in of_set], np.int64)
        names = [name for _, name in of_set]
        passage_rows = id_index(collection, ids).rows_of(names)
        present = passage_rows >= 0
        parts = [(query_rows[present], passage_rows[present])]
        if documents is not None:
            document_rows = id_index(documents.stored, documents.ids).rows_of(names)
            places = np.flatnonzero(document_rows >= 0)
            present[places] = True
            of_place, inside = PassageMap(documents.passage_map).passages(document_rows[places])
            parts.append((query_rows[places][of_place], inside))
        both = np.unique(np.concatenate([np.stack(part, axis=1) for part in parts]), axis=0)
        table = pa.table([both[:, 0].astype(np.int32), both[:, 1]], schema=schema.EXCLUDED)
        counts = {"pairs": len(pairs), "of_set": len(of_set), "present": int(present.sum())}
        return table, counts

    def spec() -> StageSpec:
        content = {} if file is None else {"content:excluded": hash_file(file)}
        params = {"exclude": OWN_ID if file is None else "file"}
        return spec_over("excluded", 1, params, stores, produces="excluded", content=content)

    name = "excluded"
    return TableStage(name, spec, stores, block, columns=schema.EXCLUDED, divided=False)


def read_excluded(path: Path) -> list[Pair]:
    """The (query id, passage id) of each line of a file, each pair once, in the file's order.

    Parquet has named columns, and so has text whose first line names them: between commas, tabs or
    semicolons with csv's quotes, or between blanks. JSON has an object for each pair, in lines or
    an array, or {query: {passage: grade}}. Without a header, two or three columns begin with the
    query and the passage; four are judgements (`read_qrels`), six a TREC run (`read_run`). Every
    line counts, whatever its grade, rank or score, but for comments, which begin with #, as in
    judgements; below a header there are none.

    Raises:
        InputError: another form, invalid lines, or no pair.
    """
    from raypipe.evaluation.run_files.runs import read_run

    pairs: Iterator[Pair]
    problems = Problems()
    if is_parquet(path):
        pairs = _columns(read_columns(path, PAIR))
    else:
        with open_binary(path) as stream:
            of_pairs = (line for line in lines(stream, name=str(path)) if not _is_empty(line))
            first = next(of_pairs, b"")
        count = len(first.split())
        if first.lstrip().startswith((b"{", b"[")):
            pairs = _of_json(path, problems)
        elif _header_in(first) is not None:
            pairs = _named(path)
        elif count == 4:
            pairs = _columns(read_qrels(path))
        elif count == 6:
            pairs = _columns(read_run(path))
        elif count in (2, 3):
            parse = partial(_first_two, count=count)
            pairs = (pair for _, pair in parsed_lines(path, parse, problems) if pair is not None)
            pairs = _without_marks(path, [*pairs]) if count == 3 else pairs
        else:
            raise InputError(
                f"{path}: expected queries and the passages that they exclude: columns query_id "
                "and passage_id with a header, Parquet, JSON with both in each object, judgements, "
                "a TREC run, or lines of query and passage; found "
                + shown(first.decode(errors="replace"))
            )
    distinct = dict.fromkeys(_checked(path, pairs, problems))
    problems.raise_if_any()
    if not distinct:
        raise InputError(f"{path}: no pair of a query and a passage in the file")
    return [*distinct]


def _columns(table: pa.Table) -> Iterator[Pair]:
    yield from zip(table["query_id"].to_pylist(), table["passage_id"].to_pylist(), strict=True)


def _checked(path: Path, pairs: Iterator[Pair], problems: Problems) -> Iterator[Pair]:
    for number, (query_id, passage_id) in enumerate(pairs, 1):
        try:
            yield checked_id(query_id, field="query id"), checked_id(passage_id, field="passage id")
        except ValueError as error:
            problems.add(f"{path}: row {number:,}: {error}")


def _is_empty(line: bytes) -> bool:
    """Whether the line is blank or a comment."""
    from raypipe.evaluation.run_files.lines import without_comments

    return not without_comments(line).strip()


def _without_marks(path: Path, pairs: list[Pair]) -> Iterator[Pair]:
    """The pairs of three columns.

    Raises:
        InputError: the second is 0 or Q0 throughout, as in judgements, whose grade is then missing.
    """
    if pairs and {passage for _, passage in pairs} <= {"0", "Q0"}:
        raise InputError(
            f"{path}: the second of three columns is 0 or Q0 in every line: may be judgements "
            "without grades, or the passages 0 and Q0; say which by a first line that names the "
            "columns, such as query_id iteration passage_id"
        )
    yield from pairs


def _header_in(line: bytes) -> foreign.Header | None:
    return foreign.header_of(line, PAIR, *PAIR)


def _named(path: Path) -> Iterator[Pair]:
    """The pairs of a file whose first line names the columns."""
    from raypipe.evaluation.run_files.lines import LineProblems
    from raypipe.evaluation.run_files.tables import table_records

    problems = LineProblems(path)
    records = table_records(path, problems, _header_in)
    columns = foreign.columns_of((names := next(records)[1]), PAIR)
    query, passage = (names.index(columns[own]) for own in PAIR)
    for _, record in records:
        yield record[query].strip(), record[passage].strip()
    problems.refuse()


def _of_json(path: Path, problems: Problems) -> Iterator[Pair]:
    """The pairs of objects, and of judgements, {query: {passage: grade}}."""
    with open_binary(path, wary=True) as stream:
        records = OBJECTS.records(stream, name=str(path), at=0, first=0, skip=0)
        for number, record in enumerate(records, 1):
            if _is_empty(record):
                continue
            try:
                fields = json_object(record)
                if fields and all(isinstance(value, dict) for value in fields.values()):
                    yield from _columns(read_qrels(path))  # of which a file is one object
                    return
                yield _of_object(fields)
            except InputError:
                raise
            except ValueError as error:
                problems.add(f"{path}: {OBJECTS.place(number, record)}: {error}")


def _of_object(fields: dict[str, Any]) -> Pair:
    lists = [name for name, value in fields.items() if isinstance(value, list)]
    if lists and not PAIR.keys() <= foreign.columns_of(fields.keys() - lists, PAIR).keys():
        raise ValueError(
            f"a list in {shown(lists[0])}; expected one query and one passage: write an object for "
            'each passage, such as {"query_id": "q1", "passage_id": "p1"}'
        )
    query, passage = (json_id(fields, *names_of(fields, PAIR, own)) for own in PAIR)
    return query, passage


def _first_two(line: bytes, *, count: int) -> Pair | None:
    """The first columns of a line; None of a blank one and of a comment."""
    columns = [] if _is_empty(line) else line.decode().split()
    if columns and len(columns) != count:
        raise ValueError(f"expected {count} columns as in the first line, found {len(columns)}")
    return (columns[0], columns[1]) if columns else None
