"""A rehearsal at the size of MS MARCO's dev.small: 6,980 queries x 1,000 passages.

Run by hand: `pytest -m long tests/evaluation/run_files/test_runs_full_size.py -s`. Timings are
printed, never asserted; memory is, because a driver has to hold several such runs.
"""

import resource
import subprocess
import sys
import textwrap

import pytest

REHEARSAL = textwrap.dedent(
    """
    import resource, sys, time
    from pathlib import Path
    import numpy as np, pyarrow as pa
    from raypipe import schema
    from raypipe.evaluation.exports import write_msmarco, write_trec
    from raypipe.evaluation.measures import evaluate
    from raypipe.evaluation.run_files.runs import read_run

    folder, queries, depth = Path(sys.argv[1]), 6980, 1000
    rng = np.random.default_rng(0)
    start = rng.integers(0, 8_841_823 - 8_000, (queries, 1))
    passages = (start + np.cumsum(rng.integers(1, 9, (queries, depth)), axis=1)).ravel()
    scores = np.sort(rng.random((queries, depth), dtype=np.float32), axis=1)[:, ::-1].round(2)
    names = np.arange(1_000_000, 1_000_000 + queries).astype(str)
    rank = np.tile(np.arange(1, depth + 1, dtype=np.int32), queries)
    # Repeated by Arrow: numpy would widen every id to its longest.
    query_id = pa.array(names).take(pa.array(np.repeat(np.arange(queries), depth)))
    passage_id = pa.array(passages).cast(pa.string())
    run = pa.table([query_id, passage_id, rank, scores.ravel()], schema=schema.RUN_FILE)
    place = np.arange(queries) * depth + rng.integers(0, depth, queries)
    judged = pa.array(passages[place]).cast(pa.string())
    qrels = pa.table([names, judged, np.ones(queries, np.int32)], schema=schema.QRELS)

    def timed(what, function, *arguments, **settings):
        began = time.perf_counter()
        result = function(*arguments, **settings)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{what}: {time.perf_counter() - began:.1f} s, peak so far {peak} MiB", flush=True)
        return result

    del start, passages, scores, place
    timed("write TREC", write_trec, run, folder / "run.trec", tag="x")
    timed("write MS MARCO", write_msmarco, run, folder / "run.tsv")
    measures = ["RR@10", "nDCG@10", "AP", "R@1000"]
    first = timed("evaluate, four measures", evaluate, run, qrels, measures)
    del run
    for name in ("run.trec", "run.tsv"):
        again = timed(f"read {name}", read_run, folder / name)
        found = timed(f"evaluate {name}", evaluate, again, qrels, measures)
        assert found.per_query == first.per_query
        assert found.mean["R@1000"] == 1.0
        del again
    """
)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_written_and_read_again_at_full_size_gives_the_same_measures_in_2_gib(tmp_path):
    done = subprocess.run([sys.executable, "-c", REHEARSAL, str(tmp_path)])
    assert done.returncode == 0
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    assert peak < 2
