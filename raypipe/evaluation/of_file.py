"""Measures of a run file, of which little is in memory at a time."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from raypipe.evaluation.measured import Measured
from raypipe.evaluation.measures import Measuring, evaluate
from raypipe.evaluation.run_files.parts import NotInPartsError, read_parts
from raypipe.evaluation.run_files.runs import read_run


def evaluate_file(path: Path, qrels: pa.Table, measures: Sequence[str]) -> Measured:
    """What `evaluate` gives of the file's run.

    A text file in which each query's lines stand together is never whole in memory; any other is.

    Raises:
        InputError: a file that is not a run, or an error of `evaluate`.
    """
    measuring = Measuring(qrels, measures)
    try:
        for part in read_parts(path):
            measuring.add(part)
    except NotInPartsError:
        return evaluate(read_run(path), qrels, measures)
    return measuring.result()
