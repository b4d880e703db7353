import pytest
import ray

from raypipe.cluster.ray_start import start_local
from raypipe.driver import devices as capability
from raypipe.driver.devices import gpu_capability
from raypipe.errors import IncompleteError, Interrupted


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.slow
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


@pytest.mark.ray
@pytest.mark.slow
def test_a_signal_ends_the_wait_for_a_node_that_may_never_come(monkeypatch):
    local, looks = start_local(num_cpus=1), []

    def should_stop():
        looks.append(1)
        return Interrupted("SIGINT", 130) if len(looks) == 2 else None

    try:
        with pytest.raises(Interrupted):
            gpu_capability(should_stop)
        monkeypatch.setattr(capability, "ANSWER_SECONDS", 0.1)
        with pytest.raises(IncompleteError, match="name the precision: fp32, tf32, bf16 or fp16"):
            gpu_capability()
    finally:
        local.close()


def _broken():
    raise RuntimeError("the driver is too old")


def _of_a_hopper():
    return (9, 0)
