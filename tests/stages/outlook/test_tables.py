"""Bytes of made-up tables against those of real ones of the same shape."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.stages.outlook.outlook import ExpectedRun
from raypipe.stages.outlook.tables import (
    keys_bytes,
    listed_bytes,
    run_bytes,
    scores_bytes,
    table_bytes,
)


def real_run(queries, lines, passages):
    random = np.random.default_rng(5)
    rows = [random.choice(passages // 3, lines, replace=False) for _ in range(queries)]
    scores = [-np.sort(-random.normal(12.0, 3.0, lines)) for _ in range(queries)]
    columns = [
        np.repeat(np.arange(queries, dtype=np.int32), lines),
        np.concatenate(rows).astype(np.int64),
        np.tile(np.arange(1, lines + 1, dtype=np.int32), queries),
        np.concatenate(scores).astype(np.float32),
        ["bm25"] * (queries * lines),
    ]
    return pa.table(columns, schema=schema.RUN)


def expected(queries, lines, passages):
    return ExpectedRun(np.full(min(queries, 40), float(lines)), queries, passages)


@pytest.mark.parametrize("shape", [(90, 100, 6_000), (300, 40, 100_000)])
def test_a_made_up_run_takes_about_the_bytes_of_a_real_one(shape):
    assert run_bytes(expected(*shape), "bm25") == pytest.approx(
        table_bytes(real_run(*shape)), rel=0.1
    )


def test_runs_with_scores_of_ranks_take_less():
    run = expected(90, 100, 6_000)
    assert run_bytes(run, "x", in_both=0.1) < 0.7 * run_bytes(run, "x")


def test_lists_that_are_known_are_written_as_they_are_and_scaled_by_their_lines():
    table = real_run(20, 50, 3_000)
    rows = table["passage_row"].to_numpy().reshape(20, 50)
    scores = table["score"].to_numpy().reshape(20, 50)
    run = ExpectedRun(np.full(20, 50.0), 60, 3_000)
    assert listed_bytes(run, "bm25", rows, scores) == 3 * table_bytes(table)
    short = np.where(np.arange(50) < 10, rows, -1)
    kept = table.filter(pa.array(table["rank"].to_numpy() <= 10))
    of_ten = ExpectedRun(np.full(20, 10.0), 20, 3_000)
    assert listed_bytes(of_ten, "bm25", short, scores) == table_bytes(kept)
    assert listed_bytes(run, "bm25", np.full((2, 3), -1), scores) == 0


def test_a_run_without_lines_takes_nothing():
    assert run_bytes(ExpectedRun(np.zeros(3), 3, 9), "x") == 0
    assert run_bytes(ExpectedRun(np.zeros(0), 0, 9), "x") == 0


@pytest.mark.parametrize("pairs", [False, True])
def test_candidates_and_scores_are_scaled_from_the_sampled_queries_to_all(pairs):
    first = np.full(30, 8.0)
    number = 8 * 7 if pairs else 8
    small = keys_bytes(first, 30 * number, 5_000, pairs=pairs)
    assert keys_bytes(first, 60 * number, 5_000, pairs=pairs) == pytest.approx(2 * small)
    scored = scores_bytes(first, 30 * number, 5_000, pairs=pairs)
    assert 3.0 < (scored - small) / (30 * number) < 7.0  # a float32 and its place
    assert keys_bytes(np.zeros(4), 0.0, 5_000, pairs=pairs) == 0
