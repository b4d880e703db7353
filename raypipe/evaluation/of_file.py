"""Measures of a run file, of which little is in memory at a time."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from raypipe.evaluation.measured import Measured
from raypipe.evaluation.measures import Measuring, evaluate
from raypipe.evaluation.run_files.parts import NotInPartsError, read_parts
from raypipe.evaluation.run_files.runs import read_run
from raypipe.vocabulary import BreakTies


def evaluate_file(
    path: Path,
    qrels: pa.Table,
    measures: Sequence[str],
    *,
    break_ties: BreakTies = "id",
    qrels_name: str = "qrels",
) -> Measured:
    """What `evaluate` gives of the file's run.

    A text file in which each query's lines stand together is never whole in memory; any other is.

    Args:
        path: the run.
        qrels: schema.QRELS.
        measures: see `evaluate`.
        break_ties: see `read_run`.
        qrels_name: what messages call the qrels, such as their file.

    Raises:
        InputError: a file that is not a run, or an error of `evaluate`.
    """
    names = (str(path), qrels_name)
    measuring = Measuring(qrels, measures)
    try:
        for part in read_parts(path, break_ties=break_ties):
            measuring.add(part)
    except NotInPartsError:
        run = read_run(path, break_ties=break_ties)
        return evaluate(run, qrels, measures, names=names)
    return measuring.result(names=names)
