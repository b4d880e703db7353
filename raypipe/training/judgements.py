"""A training set's judgements and triples, read by id, without what the guard leaves out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.config.training import TrainingSet
from raypipe.data.qrels import read_qrels
from raypipe.data.records import lines
from raypipe.data.triple_forms import remedy_of
from raypipe.errors import InputError
from raypipe.foreign import without_fractions
from raypipe.storage.compression import open_binary
from raypipe.training.examples import ROWS_AT_ONCE, Examples, RelevantTexts, pair_keys
from raypipe.training.guard import Dropped, Guard

RowsOf = Callable[[Sequence[str]], NDArray[np.int64]]
"""The rows of passage ids, -1 if there is none."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Judged passages by query row."""

    relevant: dict[int, list[int]] = field(default_factory=dict)
    """Rows of the passages to learn as relevant, in the order of the qrels."""
    known: dict[int, set[int]] = field(default_factory=dict)
    """Rows of the passages with a grade above 0, which are never drawn as irrelevant."""
    grades: dict[int, int] = field(default_factory=dict)
    """Number of judgements to learn as relevant, by grade."""
    unknown: set[str] = field(default_factory=set)
    """Ids of judged queries that are not in the query set."""

    def pairs(self) -> NDArray[np.int64]:
        """Keys of all known pairs, sorted."""
        pairs = [(query, passage) for query, found in self.known.items() for passage in found]
        rows = np.array(pairs, np.int64).reshape(-1, 2)
        return np.sort(pair_keys(rows[:, 0], rows[:, 1]))


def judged_passages(
    wanted: TrainingSet,
    rows: Mapping[str, int],
    rows_of: RowsOf,
    refused: set[int],
    guard: Guard,
    dropped: Dropped,
) -> Judged:
    """The judgements of the queries in `rows`; the file may also hold those of other splits.

    Args:
        wanted: the training set, with its qrels and its lowest relevant grade.
        rows: query id -> row.
        rows_of: the collection's.
        refused: query rows that must not be trained on.
        guard: its passages are left out.
        dropped: counts what the guard left out.

    Raises:
        InputError: passages that are not in the collection.
    """
    assert wanted.qrels is not None
    qrels = read_qrels(Path(wanted.qrels))
    ids = qrels["passage_id"].to_pylist()
    passage_rows = rows_of(ids)
    missing = sorted({ids[place] for place in np.flatnonzero(passage_rows < 0)})
    if missing:
        raise InputError(
            f"{wanted.qrels}: {len(missing)} passage ids are not in the collection "
            f"{wanted.collection}, first {', '.join(missing[:10])}; give the collection that they "
            "are of, or leave these lines out"
        )
    judged = Judged()
    columns = (qrels["query_id"].to_pylist(), ids, qrels["relevance"].to_pylist())
    for query_id, passage_id, grade, passage in zip(*columns, passage_rows.tolist(), strict=True):
        row = rows.get(query_id)
        if row is None:
            judged.unknown.add(query_id)
            continue
        if grade > 0:
            judged.known.setdefault(row, set()).add(passage)
        if grade < wanted.min_grade or row in refused:
            continue
        if passage_id in guard.left_out:
            dropped.left_out_positive += 1
        else:
            dropped.shared_passages += passage_id in guard.shared
            judged.relevant.setdefault(row, []).append(passage)
            judged.grades[grade] = judged.grades.get(grade, 0) + 1
    return judged


LINES_AT_ONCE = 500_000
MOST_SHOWN = 200
"""Characters of a line in a message."""
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


def triple_examples(
    path: Path,
    query_rows: Mapping[str, int],
    rows_of: Callable[[list[str]], Int64],
    refused: set[int],
    guard: Guard,
    dropped: Dropped,
    scratch: Path,
    beat: Callable[[], None],
) -> Examples:
    """The file's triples, in order, mapped, without those that the guard refuses.

    They go through files in `scratch`: 12 bytes per triple on disk, one chunk of lines in memory.

    Args:
        path: plain, .gz, .bz2 or .zst.
        query_rows: query id -> row.
        rows_of: passage ids -> rows, -1 where unknown.
        refused: query rows that must not be trained on.
        guard: its passages are left out, as relevant and as irrelevant ones.
        dropped: counts the triples that were left out, by reason.
        scratch: a folder that exists as long as the examples are read.
        beat: called once per chunk.

    Raises:
        InputError: lines without exactly three columns, ids that are unknown or not UTF-8, with the
            line's number; or no lines.
    """
    files = scratch / "queries.i32", scratch / "passages.i32"
    left_out = _rows(rows_of, guard.left_out)
    shared = _rows(rows_of, guard.shared)
    not_asked = np.array(sorted(refused), np.int64)
    number = kept = 0
    with files[0].open("wb") as queries_file, files[1].open("wb") as passages_file:
        for chunk in _chunks(path):
            beat()
            queries, passages = _parsed(path, chunk, number, query_rows, rows_of)
            number += len(chunk)
            asked = ~np.isin(queries, not_asked)
            positive = np.isin(passages[:, 0], left_out) & asked
            negative = np.isin(passages[:, 1], left_out) & asked & ~positive
            dropped.triples += int((~asked).sum())
            dropped.left_out_positive += int(positive.sum())
            dropped.left_out_negative += int(negative.sum())
            keep = asked & ~positive & ~negative
            dropped.shared_passages += int(np.isin(passages[keep, 0], shared).sum())
            kept += int(keep.sum())
            queries_file.write(queries[keep].astype(np.int32).tobytes())
            passages_file.write(passages[keep].astype(np.int32).tobytes())
    if not number:
        raise InputError(f"{path}: expected triples, found no line")
    return Examples(_mapped(files[0], (kept,)), _mapped(files[1], (kept, 2)))


def without_copies(triples: Examples, relevant_texts: RelevantTexts) -> tuple[Examples, int]:
    """The triples whose irrelevant passage is not relevant by its text, and the number of others.

    Mapped triples are moved together in their own files.
    """
    queries, passages = triples.query_rows, triples.passage_rows
    end = 0
    for start in range(0, len(queries), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        rows = queries[part].astype(np.int64)
        keep = ~relevant_texts.include(rows, passages[part, 1].astype(np.int64))
        stop = end + int(keep.sum())
        if stop < start + len(keep):
            queries[end:stop], passages[end:stop] = queries[part][keep], passages[part][keep]
        end = stop
    return Examples(queries[:end], passages[:end]), len(queries) - end


def _parsed(
    path: Path,
    chunk: list[bytes],
    before: int,
    query_rows: Mapping[str, int],
    rows_of: Callable[[list[str]], Int64],
) -> tuple[Int64, Int64]:
    """Query rows [N] and passage rows [N, 2]."""
    triples = [line.split() for line in chunk]
    for place, triple in enumerate(triples):
        if len(triple) != 3:
            raise InputError(
                f"{path}: line {before + place + 1:,}: expected query id, relevant and "
                f"irrelevant passage id, found {len(triple)} columns"
                + remedy_of(chunk[place], of_ids=True)
            )
    try:
        ids = [[column.decode() for column in triple] for triple in triples]
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: after line {before:,}: not UTF-8: {error.reason}") from None
    queries = np.array([query_rows.get(triple[0], -1) for triple in ids], np.int64)
    passages = rows_of([passage for triple in ids for passage in triple[1:]]).reshape(-1, 2)
    unknown = (queries < 0) | (passages < 0).any(axis=1)
    if unknown.any():
        place = int(np.flatnonzero(unknown)[0])
        known = (queries[place] >= 0, *(passages[place] >= 0))
        where = ("the queries", "the collection", "the collection")
        missing = [
            f"{id_} is not in {there}"
            for id_, there, found in zip(ids[place], where, known, strict=True)
            if not found
        ]
        raise InputError(
            f"{path}: line {before + place + 1:,}: {' '.join(ids[place])[:MOST_SHOWN]}: expected "
            f"query id, relevant and irrelevant passage id; {', '.join(missing)[:MOST_SHOWN]}"
            + _of_unknown(chunk[place], ids[place], query_rows, rows_of)
        )
    return queries, passages


def _of_unknown(
    line: bytes,
    ids: list[str],
    query_rows: Mapping[str, int],
    rows_of: Callable[[list[str]], Int64],
) -> str:
    """What to do about ids that are unknown, after "; "; empty if that is not known."""
    query, *others = ids
    if rows_of([query])[0] >= 0 and any(each in query_rows for each in others):
        return "; the query's id comes first"
    whole = [each.removesuffix(".0") for each in ids]
    if whole != ids and whole[0] in query_rows and (rows_of(whole[1:]) >= 0).all():
        return "; remove the .0: " + without_fractions("id")
    return remedy_of(line, of_ids=True)


def _rows(rows_of: Callable[[list[str]], Int64], ids: frozenset[str]) -> Int64:
    found = rows_of(sorted(ids))
    return np.sort(found[found >= 0])


def _mapped(path: Path, shape: tuple[int, ...]) -> Int32:
    if 0 in shape:
        return np.empty(shape, np.int32)
    return np.memmap(path, np.int32, "r+", shape=shape)


def _chunks(path: Path) -> Iterator[list[bytes]]:
    with open_binary(path) as stream:
        rows = lines(stream, name=str(path))
        while chunk := list(islice(rows, LINES_AT_ONCE)):
            yield chunk
