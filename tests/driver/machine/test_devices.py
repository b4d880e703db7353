"""What a machine or a cluster has to run on, and how it is shared among actors."""

import subprocess
import sys
from dataclasses import replace

import pytest

from raypipe.driver import devices
from raypipe.driver.devices import Devices, TorchBuild, choose, nvidia_devices, of_cluster
from raypipe.errors import InputError


def on_cluster(resources, device="auto", *, capability=lambda: (9, 0), **options):
    """The devices that a cluster of these resources gives."""
    hardware = replace(of_cluster(resources, lambda: None), capability=capability)
    return choose(device, hardware=hardware, **options)


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many cores and GPUs."""
    import torch

    def made(cores, gpus=0, visible=None):
        monkeypatch.setattr(devices, "num_cores", lambda: cores)
        monkeypatch.setattr(devices, "torch_build", lambda: TorchBuild("2.13", "13.0", None))
        monkeypatch.setattr(devices, "_shows_gpu", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda place=0: f"GPU {place}")
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
        names = [f"GPU {n}" for n in range(gpus)] if visible is None else visible
        monkeypatch.setattr(devices, "nvidia_devices", lambda: names)

    return made


@pytest.mark.parametrize(
    ("cores", "asked", "actors", "threads"),
    [
        (4, {}, 4, 1),
        (8, {}, 8, 1),
        (20, {}, 8, 2),
        (1, {}, 1, 1),
        (10, {"actors": 3}, 3, 3),
        (2, {"actors": 5}, 5, 1),
        (10, {"threads": 7}, 8, 7),
        (10, {"actors": "2", "threads": "3"}, 2, 3),
    ],
)
def test_cores_are_shared_among_at_most_eight_actors(machine, cores, asked, actors, threads):
    machine(cores)
    found = choose(**asked)
    assert (found.device, found.num_actors, found.threads) == ("cpu", actors, threads)
    assert (found.num_gpus, found.gpus_visible, found.gpu_name) == (0, 0, "")


def test_every_gpu_of_the_machine_gets_an_actor_unless_told_otherwise(machine):
    machine(16, gpus=4)
    found = choose()
    assert (found.device, found.num_gpus, found.num_actors, found.threads) == ("cuda", 4, 4, 1)
    assert (found.gpus_visible, found.gpu_name) == (4, "GPU 0")
    found = choose("cuda", gpus=2, threads=3)
    assert (found.num_gpus, found.num_actors, found.threads, found.gpus_visible) == (2, 2, 3, 4)
    made = {n: choose(gpus=4, actors=n).num_actors for n in (1, 3, 4, 6, 7, 8, 13)}
    assert made == {1: 1, 3: 3, 4: 4, 6: 4, 7: 4, 8: 8, 13: 12}, "no GPU has none while one has two"
    assert choose("cpu").device == "cpu"
    with pytest.raises(InputError, match="5 requested, 4 can be used"):
        choose(gpus=5)


def test_auto_is_the_precision_that_the_device_has(machine):
    machine(16, gpus=1)
    assert choose().precision == "fp16", "a GPU before Ampere"
    assert (choose("cpu").precision, choose(precision="fp32").precision) == ("fp32", "fp32")
    assert choose(precision="fastest").precision == "fp16", "on a GPU, fastest is auto"
    assert "fp16" in choose().line() and "fp32" in choose("cpu").line()
    with pytest.raises(InputError, match="resources.precision: bf16: expected one of fp32, fp16"):
        choose(precision="bf16")
    with pytest.raises(InputError, match="tf32: expected one of fp32.*this CPU"):
        choose("cpu", precision="tf32")


def test_a_cluster_is_asked_only_if_auto_depends_on_it():
    asked = []

    def capability():
        asked.append(1)
        return (8, 0)

    def precision(resources, device="auto", **options):
        return on_cluster(resources, device, capability=capability, **options).precision

    assert precision(GPU_NODES, precision="fp16") == "fp16"
    assert precision({"CPU": 8.0}) == precision(GPU_NODES, "cpu") == "fp32"
    assert not asked
    assert precision(GPU_NODES) == "bf16" and asked == [1]
    assert precision(GPU_NODES, precision="fastest") == "bf16" and asked == [1, 1]
    logical = on_cluster(GPU_NODES, capability=lambda: None)
    assert (logical.device, logical.precision) == ("cuda", "fp32")


def test_the_fastest_of_a_cpu_is_named_on_it_and_on_a_cluster_of_cpus(machine, monkeypatch):
    machine(4)
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_bf16": True})
    assert choose(precision="fastest").precision == "bf16"
    for resources in ({"CPU": 8.0}, GPU_NODES):
        found = on_cluster(resources, capability=lambda: None, precision="fastest")
        assert found.precision == "bf16"


def test_a_gpu_that_torch_cannot_use_is_no_cpu(machine):
    machine(4, visible=["NVIDIA X"])
    with pytest.raises(InputError, match=r"auto: 1 NVIDIA device\(s\) found \(NVIDIA X\)"):
        choose()
    assert choose("cpu").device == "cpu"
    machine(4)
    with pytest.raises(InputError, match=r"cuda: 0 NVIDIA device\(s\) found \(none\), but torch"):
        choose("cuda")


@pytest.mark.parametrize(("built_for", "shown"), [((None, None), True), (("13.0", None), False)])
def test_torch_is_asked_for_gpus_only_where_it_and_the_system_may_have_one(
    machine, monkeypatch, built_for, shown
):
    machine(4, gpus=1)
    monkeypatch.setattr(devices, "torch_build", lambda: TorchBuild("2.13", *built_for))
    monkeypatch.setattr(devices, "_shows_gpu", lambda: shown)
    monkeypatch.setattr("torch.cuda.is_available", lambda: pytest.fail("torch was asked"))
    monkeypatch.setattr(devices, "nvidia_devices", list)
    assert choose().device == "cpu"


def test_an_amd_gpu_is_used_by_a_torch_built_for_it(machine, monkeypatch):
    machine(4, gpus=1)
    monkeypatch.setattr(devices, "torch_build", lambda: TorchBuild("2.13", None, "7.0"))
    assert choose().num_gpus == 1


def test_what_torch_was_built_for_is_as_torch_says():
    import torch

    own = torch.__version__, torch.version.cuda, torch.version.hip
    assert devices.torch_build() == TorchBuild(*own)


def test_a_cpu_is_chosen_without_importing_torch():
    code = (
        "import sys; from raypipe.driver.devices import choose; "
        "print(choose('cpu').line(), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("device: CPU, torch 2.") and done.stdout.endswith(" False\n")


def test_the_driver_is_asked_for_its_devices(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvidia_devices() == []
    program.write_text("#!/bin/sh\necho NVIDIA A\necho NVIDIA B\n")
    program.chmod(0o755)
    assert nvidia_devices() == ["NVIDIA A", "NVIDIA B"]
    program.write_text("#!/bin/sh\necho no driver\nexit 9\n")
    assert nvidia_devices() == []


def test_a_clusters_cores_are_divided_by_the_threads_of_an_actor():
    def cpu(resources, **asked):
        found = on_cluster(resources, **asked)
        assert found.device == "cpu"
        return found.num_actors, found.threads

    assert cpu({"CPU": 12.0}) == (12, 1) and cpu({"CPU": 13.0}, threads=4) == (3, 4)
    assert cpu({"CPU": 2.0}, threads=4) == (1, 4) and cpu({"CPU": 9.0}, actors=2) == (2, 1)
    assert cpu({}, threads=1)[0] == devices.num_cores() >= 1
    assert cpu({"CPU": 3.0, "GPU": 2.0}, device="cpu") == (3, 1)


def test_the_line_of_the_devices():
    cpu = Devices("cpu", 0, "", 0, 1, 4, "2.13")
    assert cpu.line() == "device: CPU, torch 2.13, fp32, 1 actor x 4 threads"
    two = Devices("cpu", 0, "", 0, 2, 1, "2.13")
    assert two.line() == "device: CPU, torch 2.13, fp32, 2 actors x 1 threads"
    inline = Devices("cpu", 0, "", 0, 2, 1, "2.13", inline=True)
    assert inline.line() == "device: CPU, torch 2.13, fp32, 1 process x 1 threads"
    gpus = Devices("cuda", 2, "H", 8, 2, 1, "2.13")
    assert gpus.line() == "device: 2 x H (of 8 visible), torch 2.13, fp32, 2 actors"


GPU_NODES = {"CPU": 64.0, "GPU": 16.0, "accelerator_type:H100": 2.0, "node:10.0.0.5": 1.0}


def test_every_gpu_of_the_cluster_gets_an_actor():
    found = on_cluster(GPU_NODES)
    assert (found.device, found.num_gpus, found.num_actors) == ("cuda", 16, 16)
    assert found.line().startswith("device: 16 x H100 (of 16 visible)")


def test_fewer_gpus_and_more_actors_can_be_asked_for():
    found = on_cluster(GPU_NODES, gpus=4, actors=8)
    assert (found.num_gpus, found.num_actors) == (4, 8)


def test_without_gpus_every_core_gets_an_actor():
    found = on_cluster({"CPU": 96.0})
    assert (found.device, found.num_actors, found.threads) == ("cpu", 96, 1)
    assert on_cluster(GPU_NODES, "cpu", threads=4).num_actors == 16


def test_cuda_on_a_cluster_without_gpus_is_refused_unless_a_count_says_what_will_come():
    with pytest.raises(InputError, match="resources.gpus=N"):
        on_cluster({"CPU": 0.0}, "cuda")
    scaling = on_cluster({"CPU": 0.0}, "cuda", gpus=2)
    assert (scaling.device, scaling.num_actors) == ("cuda", 2)
    assert "2 x GPU (of 0 visible)" in scaling.line()


def test_two_kinds_of_gpu_are_both_named():
    mixed = {"GPU": 3.0, "accelerator_type:H100": 1.0, "accelerator_type:A100": 1.0}
    assert on_cluster(mixed).gpu_name == "A100 + H100"
