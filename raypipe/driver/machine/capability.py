"""What a GPU worker of a joined cluster can compute, asked before anything is planned."""

import time
from collections.abc import Callable

import ray

from raypipe.errors import IncompleteError, RaypipeError, first_line

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
