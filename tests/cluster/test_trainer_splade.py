"""FLOPS of a splade model on Ray's workers: over all texts of a step, whoever has them."""

import pytest
from killed_trainings import losses, prepared, start, weights
from sparse_models import make_splade

pytestmark = [pytest.mark.ray, pytest.mark.slow]
FLOPS = {"queries": 0.5, "passages": 0.3, "warmup": 2}


def test_two_workers_with_two_batches_a_step_follow_one_with_one(small_recipe, tmp_path):
    model = {"start": str(make_splade(tmp_path / "start")), "preset": "splade"}
    model |= {"query_limit": 12, "passage_limit": 40, "total_limit": None}
    settings = {"dropout": 0.0, "steps": 4, "validate": {"every": 4}, "model": model}
    settings |= {"loss": {"name": "pairwise-hinge", "flops": FLOPS}}
    alone = small_recipe("alone", batch=8, **settings)
    assert start(alone, tmp_path / "alone").wait() == 0
    out = prepared(tmp_path / "together", tmp_path / "alone")
    resources = {"backend": "ray", "workers": 2}
    together = small_recipe("together", batch=4, accumulation=2, resources=resources, **settings)
    assert start(together, out).wait() == 0
    assert losses(out) == pytest.approx(losses(tmp_path / "alone"), rel=1e-4)
    expected, found = weights(tmp_path / "alone"), weights(out)
    largest = max((found[name] - expected[name]).abs().max().item() for name in expected)
    assert largest < 1e-4
