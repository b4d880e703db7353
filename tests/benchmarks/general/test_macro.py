"""The macro mean and its interval, on differences whose resamples are known by hand."""

import runpy
from pathlib import Path

import numpy as np
import pytest

macro = runpy.run_path(str(Path(__file__).parent / "macro.py"))["macro"]


def test_each_collection_counts_once_whatever_its_size():
    found = macro([np.array([0.1, 0.1, 0.1]), np.array([0.3])])
    assert (found.mean, found.low, found.high) == pytest.approx((0.2, 0.2, 0.2))
    assert found.p == pytest.approx(1 / 10_001)


def test_p_is_the_share_of_resamples_at_or_below_the_threshold():
    assert macro([np.array([0.1])], threshold=0.1).p == 1.0
    # two queries, 0 and 1: both resampled as 0 in a quarter of the resamples
    assert macro([np.array([0.0, 1.0])]).p == pytest.approx(0.25, abs=0.02)


def test_queries_are_resampled_within_their_collection():
    found = macro([np.array([0.0, 1.0]), np.array([10.0, 10.0])])
    assert (found.low, found.high) == pytest.approx((5.0, 5.5))
