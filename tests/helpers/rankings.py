"""Rankings over training queries, from lines."""

import numpy as np

from raypipe.training.negatives import TrainingRun


def ranking(*lines):
    """Lines of query, passage or document, rank and score."""
    columns = list(zip(*lines, strict=True)) if lines else [[], [], [], []]
    dtypes = (np.int32, np.int64, np.int32, np.float32)
    return TrainingRun(*(np.array(c, d) for c, d in zip(columns, dtypes, strict=True)))
