"""A Ray that does not start is no bug of raypipe: exit 3, and what to do."""

import pytest
import ray

from raypipe.cluster import ray_start
from raypipe.errors import IncompleteError


def test_a_ray_that_does_not_start_is_incomplete_with_what_it_said(monkeypatch):
    def init(**settings):
        raise RuntimeError("The current node timed out during startup.\nmore")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(IncompleteError, match="timed out during startup.*run the same command"):
        ray_start.start_local(num_cpus=1)
