"""A Ray that does not start is no bug of raypipe: exit 3, and what to do."""

import pytest
import ray

from raypipe.cluster import ray_start
from raypipe.errors import IncompleteError, InputError


def test_a_ray_that_does_not_start_is_incomplete_with_what_it_said(monkeypatch):
    def init(**settings):
        raise RuntimeError("The current node timed out during startup.\nmore")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(IncompleteError, match="timed out during startup.*run the same command"):
        ray_start.start_local(num_cpus=1)


@pytest.mark.parametrize(
    "begin", [lambda: ray_start.start_local(num_cpus=1), lambda: ray_start.connect("h:1")]
)
def test_a_second_ray_of_a_process_is_refused_before_anything_starts(monkeypatch, begin):
    """What ends a start that failed would end the first one's daemons too."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "init", None)
    monkeypatch.setattr(ray_start, "Reaper", None)
    with pytest.raises(InputError, match=r"this process has one already.*ray\.shutdown"):
        begin()
