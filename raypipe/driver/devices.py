"""The device and the numbers of actors and threads: chosen once, reported in one line."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from raypipe.errors import IncompleteError, InputError, RaypipeError, first_line
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


def choose(
    device: str = "auto",
    *,
    precision: str = "auto",
    gpus: int | str = "all",
    actors: int | str = "auto",
    threads: int | str = "auto",
) -> Devices:
    """The devices of an invocation on this machine.

    Raises:
        InputError: cuda is requested, or visible, but torch cannot use it; more GPUs are
            requested than exist; or the device does not multiply in the precision.
    """
    import torch

    from raypipe.models.machine.precision import refuse_unable, resolved

    usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
    visible = nvidia_devices()
    if device == "cuda" and not usable or device == "auto" and visible and not usable:
        raise InputError(
            f"resources.device: {device}: {len(visible)} NVIDIA device(s) found "
            f"({', '.join(visible) or 'none'}), but torch {torch.__version__} (CUDA "
            f"{torch.version.cuda or 'not built in'}) can use none. Install a torch build for "
            "this driver, or set resources.device=cpu"
        )
    if device == "cpu" or not usable:
        own = resolved(precision, "cpu")
        refuse_unable(own, "cpu")
        return _cpu(actors, threads, torch.__version__, own)
    wanted = usable if gpus == "all" else int(gpus)
    if wanted > usable:
        raise InputError(f"resources.gpus: {wanted} requested, {usable} can be used")
    own = resolved(precision, "cuda")
    refuse_unable(own, "cuda")
    return Devices(
        device="cuda",
        num_gpus=wanted,
        gpu_name=torch.cuda.get_device_name(0),
        gpus_visible=usable,
        num_actors=wanted if actors == "auto" else int(actors),
        threads=1 if threads == "auto" else int(threads),
        torch=torch.__version__,
        precision=own,
    )


def of_cluster(
    resources: Mapping[str, float],
    device: str = "auto",
    *,
    capability: Callable[[], tuple[int, int] | None],
    precision: str = "auto",
    gpus: int | str = "all",
    actors: int | str = "auto",
    threads: int | str = "auto",
) -> Devices:
    """The devices of an invocation on a joined cluster, whose head may have no GPU itself.

    Args:
        resources: what the cluster has now, from `ray.cluster_resources()`. An explicit number of
            GPUs may exceed it: an autoscaling cluster starts nodes for waiting actors.
        capability: asks a worker for its GPU's compute capability, if `precision` is open;
            None where torch can use no GPU, so that workers compute on the CPU.

    Raises:
        InputError: cuda is requested, but the cluster has no GPU and the recipe does not say how
            many there will be.
    """
    import torch

    from raypipe.models.machine.precision import OPEN, resolved

    visible = int(resources.get("GPU", 0))
    if device == "cpu" or (device == "auto" and not visible):
        per_actor = 1 if threads == "auto" else int(threads)
        cores = int(resources.get("CPU", 0)) or num_cores()
        num_actors = max(1, cores // per_actor) if actors == "auto" else int(actors)
        own = resolved(precision, "cpu")
        return Devices("cpu", 0, "", 0, num_actors, per_actor, torch.__version__, own)
    if gpus == "all" and not visible:
        raise InputError(
            "resources.device: cuda: the cluster has no GPU now; start a node with one, or name "
            "the count that a scaling cluster will start: resources.gpus=N"
        )
    wanted = visible if gpus == "all" else int(gpus)
    own = cast(Precisions, precision)
    if precision in OPEN:
        found = capability()
        own = resolved(precision, "cpu" if found is None else "cuda", found)
    return Devices(
        device="cuda",
        num_gpus=wanted,
        gpu_name=_accelerators(resources),
        gpus_visible=visible,
        num_actors=wanted if actors == "auto" else int(actors),
        threads=1 if threads == "auto" else int(threads),
        torch=torch.__version__,
        precision=own,
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


def _cpu(actors: int | str, threads: int | str, torch: str, precision: str) -> Devices:
    # One thread per actor is the fastest use of few cores: no barriers between small products.
    num_actors = min(num_cores(), MAX_CPU_ACTORS) if actors == "auto" else int(actors)
    per_actor = max(1, num_cores() // num_actors) if threads == "auto" else int(threads)
    return Devices(
        device="cpu",
        num_gpus=0,
        gpu_name="",
        gpus_visible=0,
        num_actors=num_actors,
        threads=per_actor,
        torch=torch,
        precision=cast(Precisions, precision),
    )


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

    asked = ray.remote(_capability).options(num_gpus=1, num_cpus=0, max_retries=3).remote()
    deadline = time.monotonic() + ANSWER_SECONDS
    while not ray.wait([asked], timeout=POLL_SECONDS)[0] and time.monotonic() < deadline:
        stop = should_stop()
        if stop is not None:
            ray.cancel(asked, force=True)
            raise stop
    try:
        found: tuple[int, int] | None = ray.get(asked, timeout=0)
    except ray.exceptions.RayError as error:
        ray.cancel(asked, force=True)
        raise IncompleteError(
            "resources.precision: auto or fastest: expected a GPU worker to tell what it can "
            "compute, found: "
            f"{first_line(error)}; try again, or name the precision: fp32, tf32, bf16 or fp16"
        ) from error
    return found


def _capability() -> tuple[int, int] | None:
    import torch

    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None
