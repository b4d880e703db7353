"""What a joined cluster's resources say to run on, whatever the driver's own machine has."""

import pytest

from raypipe.driver.machine.devices import of_cluster
from raypipe.errors import InputError

GPU_NODES = {"CPU": 64.0, "GPU": 16.0, "accelerator_type:H100": 2.0, "node:10.0.0.5": 1.0}


def test_every_gpu_of_the_cluster_gets_an_actor():
    found = of_cluster(GPU_NODES)
    assert (found.device, found.num_gpus, found.num_actors) == ("cuda", 16, 16)
    assert found.line().startswith("device: 16 x H100 (of 16 visible)")


def test_fewer_gpus_and_more_actors_can_be_asked_for():
    found = of_cluster(GPU_NODES, gpus=4, actors=8)
    assert (found.num_gpus, found.num_actors) == (4, 8)


def test_without_gpus_every_core_gets_an_actor():
    found = of_cluster({"CPU": 96.0})
    assert (found.device, found.num_actors, found.threads) == ("cpu", 96, 1)
    assert of_cluster(GPU_NODES, "cpu", threads=4).num_actors == 16


def test_cuda_on_a_cluster_without_gpus_is_refused_unless_a_count_says_what_will_come():
    with pytest.raises(InputError, match="resources.gpus=N"):
        of_cluster({"CPU": 0.0}, "cuda")
    scaling = of_cluster({"CPU": 0.0}, "cuda", gpus=2)
    assert (scaling.device, scaling.num_actors) == ("cuda", 2)
    assert "2 x GPU (of 0 visible)" in scaling.line()


def test_two_kinds_of_gpu_are_both_named():
    mixed = {"GPU": 3.0, "accelerator_type:H100": 1.0, "accelerator_type:A100": 1.0}
    assert of_cluster(mixed).gpu_name == "A100 + H100"
