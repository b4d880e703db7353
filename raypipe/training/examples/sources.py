"""What examples are drawn from: runs and their windows, and passages of documents."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from raypipe.config.training.sets import TrainingSet
from raypipe.stages.documents.passage_map import PassageMap
from raypipe.storage.records import Json
from raypipe.storage.store import Stored
from raypipe.training.examples.documents import Best, Passages, document_examples
from raypipe.training.examples.draw import Short, Window
from raypipe.training.examples.guarding.guard import Dropped
from raypipe.training.examples.judged import Judged
from raypipe.training.examples.rankings import Ranking, Taught, ranking_of
from raypipe.training.examples.table import Examples


@dataclass(frozen=True)
class OfDocuments:
    """What a set of documents reads besides: its qrels and runs name documents."""

    map: Stored
    """The map between passages and documents."""
    scores: Stored | None
    """A run of an earlier phase's model over the passages of the relevant documents."""


def runs_without(
    stores: Sequence[Stored], left_out: NDArray[np.int64], dropped: Dropped
) -> list[Ranking]:
    """The runs without the rows that may not be negatives, which are counted."""
    runs = []
    for stored in stores:
        ranking = ranking_of(stored)
        kept = ranking.without(left_out) if len(left_out) else ranking
        dropped.left_out_negative += len(ranking.passage_rows) - len(kept.passage_rows)
        runs.append(kept)
    return runs


def sources_of(
    wanted: TrainingSet, stores: Sequence[Stored], left_out: NDArray[np.int64], dropped: Dropped
) -> tuple[list[Ranking], Window]:
    """The runs, without what the guard leaves out, and what is drawn from them.

    Args:
        wanted: the training set, with negatives.
        stores: its runs.
        left_out: rows that may not be negatives.
        dropped: counts those.
    """
    negatives = wanted.negatives
    assert negatives is not None
    runs = runs_without(stores, left_out, dropped)
    window = Window(
        first=negatives.first,
        last=negatives.last,
        per_example=negatives.per_example,
        examples=negatives.examples,
        above_teacher=negatives.above_teacher,
        relevant_last=negatives.relevant_last,
    )
    return runs, window


def examples_of_documents(
    wanted: TrainingSet,
    found: OfDocuments,
    judged: Judged,
    runs: Sequence[Ranking],
    window: Window,
    *,
    seed: int,
    short: Short,
) -> tuple[Examples, dict[str, Json]]:
    """The examples of a set of documents, and their facts; see `document_examples`."""
    assert wanted.documents is not None
    best = None
    if found.scores is not None and wanted.documents.best is not None:
        best = Best(wanted.documents.best, Taught(ranking_of(found.scores)))
    passages = Passages(PassageMap(found.map), wanted.documents.passages)
    examples, not_best = document_examples(
        judged, runs, passages, best, window, seed=seed, short=short
    )
    number = sum(map(len, judged.relevant.values()))
    return examples, {"documents": {"relevant": number, "not_best": not_best}}
