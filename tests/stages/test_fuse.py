import numpy as np
import pytest

from raypipe import schema
from raypipe.stages.fuse import fuse_stage
from raypipe.stages.stage import Sizing


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.fixture
def fused(stores):
    """A stage that fuses runs of three queries by RRF, with changes."""
    given = {"name": "f", "sides": stores.sides(3), "method": "rrf", "depth": 10}
    return lambda runs, **settings: fuse_stage(runs=runs, **{**given, **settings})


@pytest.mark.parametrize("block", [1, 3])
def test_fused_runs_follow_the_recipes_order_and_settings(stores, fused, block):
    runs = {
        "b": stores.run([(0, 1, 4.0), (0, 2, 2.0), (1, 3, 1.0)]),
        "a": stores.run([(0, 2, 9.0), (0, 3, 8.0)], [(2, 5, 1.0)]),
    }
    sizing = Sizing(shard_queries=block)

    def lines(**settings):
        table = stores.finished(fused(runs, **settings), sizing).whole_table(schema.RUN)
        return [(query, row, score) for query, row, _, score, _ in rows_of(table)]

    assert [line[1] for line in lines(method="alternate")] == [1, 2, 3, 3, 5]
    third, half = np.float32(1 / 3), np.float32(1 / 2)
    assert lines(k=1)[:3] == [(0, 2, np.float32(1 / 3 + 1 / 2)), (0, 1, half), (0, 3, third)]
    assert lines(depth=1, k=1) == [(0, 2, np.float32(1 / 3 + 1 / 2)), (1, 3, half), (2, 5, half)]
    assert lines(method="weighted", weights=[3.0, 1.0])[:2] == [(0, 1, 3.0), (0, 2, 1.0)]
    assert lines(method="weighted")[:2] == [(0, 1, 0.5), (0, 2, 0.5)]


def test_only_settings_that_a_method_reads_name_its_run(stores, fused):
    a, b = stores.run([(0, 1, 4.0)]), stores.run([(0, 2, 4.0)])
    runs = {"a": a, "b": b}
    rrf = fused(runs).spec.fingerprint()
    assert fused(runs, k=61).spec.fingerprint() != rrf != fused(runs, depth=9).spec.fingerprint()
    assert fused(runs, weights=[1, 2]).spec.fingerprint() == rrf
    turns = fused(runs, method="alternate").spec.fingerprint()
    assert fused(runs, method="alternate", k=61).spec.fingerprint() == turns != rrf
    assert fused({"b": b, "a": a}, method="alternate").spec.fingerprint() != turns
    shares = fused(runs, method="weighted", weights=[1, 2]).spec.fingerprint()
    assert fused(runs, method="weighted", weights=[1, 3]).spec.fingerprint() != shares
    assert fused(runs, method="weighted").spec.params["weights"] is None
