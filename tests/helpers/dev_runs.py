"""Runs of a dev set."""

import numpy as np

from raypipe.stages.run_tables import run_table


def run_of(*lines):
    queries, passages, scores = zip(*lines, strict=True)
    return run_table(
        np.array(queries, np.int32), np.array(passages, np.int64), np.array(scores, np.float32),
        scored_by="first",
    )  # fmt: skip


RUN = run_of((0, 10, 0.9), (0, 11, 0.8), (0, 12, 0.7), (1, 12, 0.6), (1, 10, 0.5))
