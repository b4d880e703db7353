"""The device and the numbers of actors and threads: chosen once, reported in one line."""

import os
import runpy
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from raypipe.errors import IncompleteError, InputError, RaypipeError, first_line
from raypipe.stages.stage import Needs
from raypipe.vocabulary import Precisions

MAX_CPU_ACTORS = 8  # each holds its own weights; on one machine more add little


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that the model stages of an invocation run on."""

    device: str
    num_gpus: int
    gpu_name: str
    gpus_visible: int
    num_actors: int
    threads: int
    torch: str
    precision: Precisions = "fp32"
    """Of the models' products, unless a model's own settings fix another."""
    inline: bool = False
    """Whether this process alone does the work, whatever the number of actors."""

    @property
    def needs(self) -> Needs:
        """The needs of one actor; more actors than GPUs share each of them evenly, see `_on_gpus`.

        One of them then computes while another reads, writes or commits. Ray counts a share in ten
        thousandths, which is rounded down.
        """
        if self.device == "cpu":
            return Needs(threads=self.threads)
        on_each = max(1, -(-self.num_actors // max(1, self.num_gpus)))
        return Needs(num_gpus=10_000 // on_each / 10_000, threads=self.threads)

    def line(self) -> str:
        """`device: 2 x NVIDIA H100 (of 8 visible), torch 2.13+cu130, bf16, 2 actors`."""
        actors = f"{self.num_actors} actor{'s' if self.num_actors > 1 else ''}"
        if self.inline:
            actors = "1 process"
        if self.device == "cpu":
            here = f"device: CPU, torch {self.torch}, {self.precision}"
            return f"{here}, {actors} x {self.threads} threads"
        found = f"{self.num_gpus} x {self.gpu_name} (of {self.gpus_visible} visible)"
        return f"device: {found}, torch {self.torch}, {self.precision}, {actors}"


@dataclass(frozen=True, slots=True)
class Hardware:
    """The cores and GPUs of this machine, or of a cluster that was joined."""

    cores: int
    gpus: int = 0
    gpu_name: str = ""
    capability: Callable[[], tuple[int, int] | None] = lambda: None
    """The compute capability of the GPUs, asked of one; None where torch can use none there."""
    no_gpu: str = ""
    """Why there is no GPU to compute on, with the remedy."""
    has_unusable: bool = False
    """Whether there is a GPU that torch cannot use."""
    joined: bool = False
    """Whether it is a cluster, whose nodes differ from this machine and may become more."""


def choose(
    device: str = "auto",
    *,
    precision: str = "auto",
    gpus: int | str = "all",
    actors: int | str = "auto",
    threads: int | str = "auto",
    hardware: Hardware | None = None,
) -> Devices:
    """The devices of an invocation, on this machine unless other `hardware` is given.

    An explicit number of GPUs may exceed those of a cluster: it starts nodes for waiting actors.

    Raises:
        InputError: cuda is requested, or visible, but cannot be used; more GPUs are requested than
            exist; or this machine's device does not multiply in the precision.
    """
    here = hardware or (Hardware(num_cores()) if device == "cpu" else this_machine())
    if device == "cpu" or device == "auto" and not here.gpus and not here.has_unusable:
        num_actors, per_actor = _on_cores(here, actors, threads)
        own = _precision(precision, "cpu", here)
        return Devices("cpu", 0, "", 0, num_actors, per_actor, torch_build().version, own)
    if not here.gpus and (gpus == "all" or not here.joined):
        raise InputError(f"resources.device: {device}: {here.no_gpu}")
    num_gpus = here.gpus if gpus == "all" else int(gpus)
    if num_gpus > here.gpus and not here.joined:
        raise InputError(f"resources.gpus: {num_gpus} requested, {here.gpus} can be used")
    return Devices(
        device="cuda",
        num_gpus=num_gpus,
        gpu_name=here.gpu_name,
        gpus_visible=here.gpus,
        num_actors=_on_gpus(num_gpus, actors),
        threads=1 if threads == "auto" else int(threads),
        torch=torch_build().version,
        precision=_precision(precision, "cuda", here),
    )


def _on_gpus(num_gpus: int, actors: int | str) -> int:
    """Number of actors; more than the GPUs are a multiple of them.

    Ray gives one GPU to as many actors as have room before it gives the next one, so that others
    than a multiple would leave a GPU without work: of six with half of four GPUs, the fourth.
    """
    num_actors = num_gpus if actors == "auto" else int(actors)
    return num_actors if num_actors < num_gpus else num_actors - num_actors % num_gpus


def _on_cores(here: Hardware, actors: int | str, threads: int | str) -> tuple[int, int]:
    """Numbers of actors and of threads of each, on a CPU."""
    if here.joined:
        per_actor = 1 if threads == "auto" else int(threads)
        return (max(1, here.cores // per_actor) if actors == "auto" else int(actors)), per_actor
    # One thread per actor is the fastest use of few cores: no barriers between small products.
    num_actors = min(here.cores, MAX_CPU_ACTORS) if actors == "auto" else int(actors)
    return num_actors, max(1, here.cores // num_actors) if threads == "auto" else int(threads)


def _precision(precision: str, device: str, here: Hardware) -> Precisions:
    """The precision that the recipe's word means on the devices.

    Raises:
        InputError: this machine's device does not multiply in it; workers of a cluster say so
            themselves.
    """
    if device == "cpu" and precision in ("auto", "fp32"):
        return "fp32"  # as `resolved` says, which imports torch
    from raypipe.models.machine.precision import OPEN, refuse_unable, resolved

    capability = here.capability() if device == "cuda" and precision in OPEN else None
    computes = "cpu" if precision in OPEN and capability is None else device
    own = resolved(precision, computes, capability)
    if not here.joined:
        refuse_unable(own, device)
    return own


class TorchBuild(NamedTuple):
    """The installed torch."""

    version: str
    cuda: str | None
    """The version of CUDA that it was built for."""
    hip: str | None
    """The same of AMD's ROCm."""


@cache
def torch_build() -> TorchBuild:
    """The version of torch and what it was built for, from a file of its own.

    Importing torch takes longer than all else that a command does when nothing has to be computed.
    """
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None  # a dependency
    file = runpy.run_path(str(Path(spec.origin).with_name("version.py")))
    return TorchBuild(file["__version__"], file["cuda"], file["hip"])


def this_machine() -> Hardware:
    """The cores of this machine, and the GPUs that torch can use."""
    built = torch_build()
    if (built.cuda or built.hip) and _shows_gpu():
        import torch

        if torch.cuda.is_available():
            name, capability = torch.cuda.get_device_name(0), torch.cuda.get_device_capability
            return Hardware(num_cores(), torch.cuda.device_count(), name, capability)
    visible = nvidia_devices()
    return Hardware(
        num_cores(),
        no_gpu=f"{len(visible)} NVIDIA device(s) found ({', '.join(visible) or 'none'}), but torch "
        f"{built.version} (CUDA {built.cuda or 'not built in'}) can use none. "
        "Install a torch build for this driver, or set resources.device=cpu",
        has_unusable=bool(visible),
    )


GPU_FILES = ("nvidia", "nvhost", "nvgpu", "nvmap", "dxg", "kfd")
"""Beginnings of the names in /dev by which Linux shows a GPU: NVIDIA's and those of its Jetson
boards, Windows' to the Linux in it, and AMD's."""


def _shows_gpu() -> bool:
    """Whether Linux shows a GPU; whether torch can use it, only torch knows."""
    return any(name.startswith(GPU_FILES) for name in os.listdir("/dev"))


def of_cluster(
    resources: Mapping[str, float], should_stop: Callable[[], RaypipeError | None]
) -> Hardware:
    """The cores and GPUs that a joined cluster has now, whose head may have no GPU itself.

    Args:
        resources: from `ray.cluster_resources()`.
        should_stop: returns an error that ends the wait for a GPU worker's answer.
    """
    return Hardware(
        cores=int(resources.get("CPU", 0)) or num_cores(),
        gpus=int(resources.get("GPU", 0)),
        gpu_name=_accelerators(resources),
        capability=partial(gpu_capability, should_stop),
        no_gpu="the cluster has no GPU now; start a node with one, or name the count that a "
        "scaling cluster will start: resources.gpus=N",
        joined=True,
    )


def _accelerators(resources: Mapping[str, float]) -> str:
    """The kinds of GPU that Ray found, such as `H100` or `A100 + H100`; `GPU` if it names none."""
    prefix = "accelerator_type:"
    kinds = sorted(k.removeprefix(prefix) for k in resources if k.startswith(prefix))
    return " + ".join(kinds) or "GPU"


def nvidia_devices() -> list[str]:
    """Names of the NVIDIA devices that the driver lists; empty without a driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def num_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


ANSWER_SECONDS = 600.0
"""A scaling cluster may have to start a node first."""
POLL_SECONDS = 1.0


def gpu_capability(
    should_stop: Callable[[], RaypipeError | None] = lambda: None,
) -> tuple[int, int] | None:
    """The CUDA compute capability of the GPU that the cluster gives to a worker, such as (9, 0).

    None if torch can use none there: workers with a logical GPU compute on the CPU.

    Raises:
        IncompleteError: no answer; the message has the remedy.
        RaypipeError: the error that `should_stop` returned.
    """
    import ray

    task = ray.remote(_capability).options(num_gpus=1, num_cpus=0, max_retries=3).remote()
    deadline = time.monotonic() + ANSWER_SECONDS
    while not ray.wait([task], timeout=POLL_SECONDS)[0] and time.monotonic() < deadline:
        stop = should_stop()
        if stop is not None:
            ray.cancel(task, force=True)
            raise stop
    try:
        capability: tuple[int, int] | None = ray.get(task, timeout=0)
    except ray.exceptions.RayError as error:
        ray.cancel(task, force=True)
        raise IncompleteError(
            "resources.precision: auto or fastest: expected a GPU worker to tell what it can "
            "compute, found: "
            f"{first_line(error)}; try again, or name the precision: fp32, tf32, bf16 or fp16"
        ) from error
    return capability


def _capability() -> tuple[int, int] | None:
    import torch

    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None
