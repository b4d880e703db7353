"""A training set's judgements: which passages are relevant, and which are never negatives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.config.training.sets import TrainingSet
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError
from raypipe.training.examples.guarding.guard import Dropped, Guard
from raypipe.training.examples.table import pair_keys

RowsOf = Callable[[Sequence[str]], NDArray[np.int64]]
"""The rows of passage ids, -1 if there is none."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Judged passages by query row."""

    relevant: dict[int, list[int]] = field(default_factory=dict)
    """Rows of the passages to learn as relevant, in the order of the qrels."""
    known: dict[int, set[int]] = field(default_factory=dict)
    """Rows of the passages with a grade above 0, which are never drawn as irrelevant."""

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
            f"{wanted.collection}, first {', '.join(missing[:10])}"
        )
    judged = Judged()
    columns = (qrels["query_id"].to_pylist(), ids, qrels["relevance"].to_pylist())
    for query_id, passage_id, grade, passage in zip(*columns, passage_rows.tolist(), strict=True):
        row = rows.get(query_id)
        if row is None:
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
    return judged
