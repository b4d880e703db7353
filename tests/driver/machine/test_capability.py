import pytest
import ray

from raypipe.driver.machine import capability
from raypipe.driver.machine.capability import gpu_capability
from raypipe.errors import IncompleteError


@pytest.mark.long
@pytest.mark.ray
def test_a_worker_is_asked_and_one_that_fails_ends_with_a_remedy(monkeypatch):
    """Ray believes in the GPU that it is told of; torch does not."""
    ray.init(address="local", num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False)
    try:
        assert gpu_capability() is None
        monkeypatch.setattr(capability, "_capability", _broken)
        with pytest.raises(IncompleteError, match="name the precision: fp32, tf32, bf16 or fp16"):
            gpu_capability()
        monkeypatch.setattr(capability, "_capability", _of_a_hopper)
        assert gpu_capability() == (9, 0)
    finally:
        ray.shutdown()


def _broken():
    raise RuntimeError("the driver is too old")


def _of_a_hopper():
    return (9, 0)
