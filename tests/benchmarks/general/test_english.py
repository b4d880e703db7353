"""The rule of the recipe `english`, on values whose intervals are plain."""

import runpy
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def first_stage():
    here = Path(__file__).parent
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(here))
        return runpy.run_path(str(here / "english.py"))["first_stage"]


def measured(bm25, dense, both):
    """The values of two sets, each of which counts once."""
    runs = {"bm25": bm25, "dense": dense, "sum-1-3": both}
    each = {run: dict(zip("abcd", values, strict=True)) for run, values in runs.items()}
    return {"one": each, "other": each}


LOW, MIXED, HIGH = [0.1, 0.2, 0.1, 0.2], [0.9, 0.1, 0.2, 0.9], [0.5, 0.6, 0.5, 0.6]


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ((LOW, LOW, HIGH), "sum-1-3"),
        ((LOW, MIXED, HIGH), "dense"),
        ((LOW, HIGH, MIXED), "dense"),
        ((MIXED, HIGH, HIGH), "bm25"),
        ((HIGH, MIXED, MIXED), "bm25"),
    ],
)
def test_the_simplest_first_stage_that_is_not_below_the_best_is_chosen(first_stage, values, first):
    assert first_stage(measured(*values)) == first
