"""Leaving out the ends of lists changes no value."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.evaluation.measures import evaluate
from raypipe.ranking.blend import reranked_at
from raypipe.ranking.rerank import rerank
from raypipe.report.measures import measured, needed


@pytest.mark.parametrize(
    "measure", ["nDCG@2", "nDCG(judged_only=True)@2", "AP(judged_only=True)@1"]
)
def test_values_are_those_of_the_whole_list(outside, measure):
    """Of 7 passages, q1's judged ones are the first and the last but one."""
    work, _ = outside
    for system in work.systems("test"):
        run = work.run(system, "test")
        whole = evaluate(work.named(run, "test"), work.judgements("test"), [measure], warn=False)
        assert measured(work, "test", run, [measure]).per_query == whole.per_query


class _Judged:
    """The last passage of one query is judged."""

    def judged_rows(self, query_set):
        return np.array([0]), np.array([11])


def test_enough_is_left_where_candidates_are_in_quarantine():
    """They are left out, so the passages below move up."""
    rows = np.arange(12)
    columns = [np.zeros(12, np.int64), rows, rows + 1, 12.0 - rows, ["first"] * 12]
    first = pa.table([*map(pa.array, columns)], names=schema.RUN.names).cast(schema.RUN)
    failed = rows < 2
    how = {"tail": "keep", "scored_by": "mono"}
    whole = rerank(first, np.zeros(12, np.float32), k=5, failed=failed, **how)
    left, scored = (needed(_Judged(), "test", r, ["RR@10"], most=5) for r in (first, whole))
    found = reranked_at(left, scored, depth=5, **how)
    assert found.slice(0, 10).equals(whole.slice(0, 10))
    assert found["passage_row"][9].as_py() == 11
