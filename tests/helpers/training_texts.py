"""Texts and examples from lists of word pieces."""

import numpy as np

from raypipe.config.training import TrainingSet
from raypipe.models.folder.settings import PairConventions
from raypipe.text.inputs import TextSlice
from raypipe.training.batch import ExampleSource
from raypipe.training.examples import Examples, pair_keys
from raypipe.training.start import starting_tensors


class Texts:
    """Row r has the pieces 10 r, 10 r + 1, ...; as many as `counts` says."""

    def __init__(self, base, counts):
        self.base, self.counts = base, counts

    def part(self, rows):
        counts = np.array([self.counts[row] for row in rows], np.int64)
        pieces = [self.base + 10 * row + n for row in rows for n in range(self.counts[row])]
        return TextSlice(np.array(pieces, np.uint16), np.cumsum(counts) - counts, counts)


def pieces(part):
    spans = zip(part.starts.tolist(), part.counts.tolist(), strict=True)
    return [part.flat[start : start + count].tolist() for start, count in spans]


def source(queries, passages, base, *, teacher=None, relevant=None):
    table = Examples(
        np.array(queries, np.int32),
        np.array(passages, np.int32),
        teacher=None if teacher is None else np.array(teacher, np.float32),
        relevant=relevant,
    )
    return ExampleSource(table, Texts(base, [1, 2, 3]), Texts(base + 100, [2, 1, 0, 4]))


def keys(*pairs):
    return np.sort([int(pair_keys(np.array(q), np.array(p))) for q, p in pairs])


ONE = source([0, 1, 2], [[0, 1], [1, 2], [3, 0]], 0, relevant=keys((0, 0), (1, 1), (1, 0), (2, 3)))


TWO = source([1, 0], [[2, 3], [0, 3]], 1000, teacher=[[0.5, 0.25], [2.0, -1.0]])


def pair_conventions(kind="mono", **changed):
    given = {"query_limit": 2, "passage_limit": None, "total_limit": 8, "relevant_label": 1}
    given["score"] = "log-probability"
    return PairConventions(**{"kind": kind, **given, **changed})


def start(conventions, tensors, units=2, seed=3, draw_missing=True):
    config = {"hidden_size": 4, "initializer_range": 0.5}
    return starting_tensors(
        tensors, config, conventions, num_units=units, seed=seed, draw_missing=draw_missing
    )


def wanted(**changed):
    negatives = {"runs": ["first"], "first": 3, "last": 9, "per_example": 4,
                 **changed.pop("negatives", {})}  # fmt: skip
    given = {"collection": "c", "queries": "q.tsv", "qrels": "q.txt", "negatives": negatives}
    return TrainingSet(**{**given, **changed})
