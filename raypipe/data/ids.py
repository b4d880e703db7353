"""The id index: from original passage ids to rows, without keeping the strings.

138M ids do not fit a dictionary. The file has two rows of uint64, mapped by readers: the hashes of
the ids in ascending order, and the passage row of each; equal hashes by ascending row. A hash only
finds candidates; the id itself, read back from the collection, decides. Ids that are declared to be
0 to n-1 in order (MS MARCO v1) are only checked.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from raypipe.data.records import MAX_SHOWN, Problems, again
from raypipe.errors import InputError, shown
from raypipe.storage.payloads import writing


def check_dense_ids(batches: Iterable[Sequence[str]], *, name: str) -> None:
    """Returns nothing if the ids, in row order from row 0, are "0", "1", ... in plain decimal.

    A gap shifts every id after it. A negative, repeated, out-of-range or padded ("007") id, or one
    beyond int64, also differs from its row.

    Args:
        batches: ids in batches of any size.
        name: the collection's name, for messages.

    Raises:
        InputError: the first ten ids that differ from their row, and the number of all.
    """
    problems = Problems()
    row = 0
    for batch in batches:
        for passage_id in batch:
            if passage_id != str(row):
                problems.add(f"{name}: row {row:,}: expected id {row}, found {shown(passage_id)}")
            row += 1
    problems.raise_if_any()


Rows: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]
IdsOfRows: TypeAlias = Callable[[Rows], Sequence[str]]
"""The ids of the given rows, in their order; rows are always given in ascending order."""

_BATCH_ROWS = 1 << 16
_BATCH_SUSPECTS = 1000
_DTYPE = "<u8"


def hash_ids(ids: Sequence[str]) -> Hashes:
    """64-bit BLAKE2b of each id's UTF-8 bytes: [len(ids)] uint64, the same on every machine."""
    digests = b"".join(blake2b(value.encode(), digest_size=8).digest() for value in ids)
    return np.frombuffer(digests, _DTYPE).astype(np.uint64)


def build_id_index(
    batches: Iterable[Sequence[str]],
    path: Path,
    *,
    ids_of_rows: IdsOfRows,
    hash_ids: Callable[[Sequence[str]], Hashes] = hash_ids,
    place: Callable[[int], str] = lambda row: f"row {row + 1:,}",
) -> int:
    """The number of ids; writes the index of the ids, which are in row order from row 0.

    Memory: 8 bytes per id for the hashes, 24 while they are sorted, and one batch of strings.

    Args:
        batches: ids in batches of any size.
        path: the file to write; it need not end in .npy.
        ids_of_rows: reads ids back, to distinguish a repeated id from two ids with one hash.
        hash_ids: the hash, replaceable so that collisions can be tested.
        place: where a row, from 0, comes from, for messages.

    Raises:
        InputError: repeated ids, the first ten with both places; nothing is written then.
    """
    parts = [hash_ids(batch) for batch in batches if len(batch)]
    hashes = np.concatenate(parts) if parts else np.empty(0, np.uint64)
    parts.clear()
    order = np.argsort(hashes, kind="stable")  # stable: equal hashes by row
    hashes = hashes[order]
    _refuse_repeated(hashes, order, ids_of_rows, place)
    with writing(path), path.open("wb") as file:
        header = {"descr": _DTYPE, "fortran_order": False, "shape": (2, len(hashes))}
        np.lib.format.write_array_header_1_0(file, header)
        hashes.astype(_DTYPE, copy=False).tofile(file)
        order.view(np.uint64).astype(_DTYPE, copy=False).tofile(file)
    return len(hashes)


class IdIndex:
    """The rows of ids, from the mapped file."""

    def __init__(
        self,
        path: Path,
        ids_of_rows: IdsOfRows,
        *,
        hash_ids: Callable[[Sequence[str]], Hashes] = hash_ids,
    ) -> None:
        self._hashes, self._rows = np.load(path, mmap_mode="r")
        self._ids_of_rows, self._hash_ids = ids_of_rows, hash_ids

    def __len__(self) -> int:
        return len(self._hashes)

    def rows_of(self, ids: Sequence[str]) -> Rows:
        """The passage row of each id: [len(ids)] int64, -1 if no passage has exactly this id."""
        parts = [
            self._rows_of(ids[start : start + _BATCH_ROWS])
            for start in range(0, len(ids), _BATCH_ROWS)
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _rows_of(self, ids: Sequence[str]) -> Rows:
        passage_rows = np.full(len(ids), -1, np.int64)
        hashes = self._hash_ids(ids)
        positions = np.searchsorted(self._hashes, hashes)
        open_ = np.arange(len(ids))  # positions in `ids` not yet decided
        while len(open_):
            inside = open_[positions[open_] < len(self._hashes)]
            open_ = inside[self._hashes[positions[inside]] == hashes[inside]]
            rows = self._rows[positions[open_]].astype(np.int64)
            equal = [
                ids[place] == value
                for place, value in zip(open_, _ids_of(rows, self._ids_of_rows), strict=True)
            ]
            matched = np.asarray(equal, bool)
            passage_rows[open_[matched]] = rows[matched]
            open_ = open_[~matched]
            positions[open_] += 1  # another id with the same hash may follow
        return passage_rows


def _ids_of(rows: Rows, ids_of_rows: IdsOfRows) -> list[str]:
    """The ids of the rows, in their order; each row is read once, in ascending order."""
    if not len(rows):
        return []
    distinct, inverse = np.unique(rows, return_inverse=True)
    ids = ids_of_rows(distinct)
    return [ids[place] for place in inverse]


def _refuse_repeated(
    hashes: Hashes, rows: Rows, ids_of_rows: IdsOfRows, place: Callable[[int], str]
) -> None:
    """Raise InputError with the first ten repeated ids by row, and the number of others."""
    suspects = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
    suspects = suspects[np.argsort(rows[suspects], kind="stable")]
    problems: list[str] = []
    num_checked = 0
    while num_checked < len(suspects) and len(problems) < MAX_SHOWN:
        batch = suspects[num_checked : num_checked + _BATCH_SUSPECTS]
        problems += _repeated(batch, hashes, rows, ids_of_rows, place)
        num_checked += len(batch)
    if problems:
        hidden = len(problems[MAX_SHOWN:]) + len(suspects) - num_checked
        more = [f"and {hidden:,} more repeated ids"] if hidden else []
        raise InputError(problems[:MAX_SHOWN] + more)


def _repeated(
    batch: Rows,
    hashes: Hashes,
    rows: Rows,
    ids_of_rows: IdsOfRows,
    place: Callable[[int], str],
) -> list[str]:
    """Problems for those positions in the sorted hashes whose id also occurs in an earlier row."""
    runs = np.searchsorted(hashes, hashes[batch])  # start of each position's equal hashes
    spans = [np.arange(run, position + 1) for run, position in zip(runs, batch, strict=True)]
    by_row = np.sort(rows[np.unique(np.concatenate(spans))])
    first: dict[str, int] = {}
    id_of = dict(zip(by_row.tolist(), ids_of_rows(by_row), strict=True))
    for row, passage_id in id_of.items():
        first.setdefault(passage_id, row)
    return [
        again(place(row), id_of[row], place(first[id_of[row]]))
        for row in rows[batch].tolist()
        if first[id_of[row]] != row
    ]
