"""Settings of a training's process: threads, full precision, and deterministic kernels."""

import os

import torch

from raypipe.models.machine.precision import set_products


def make_deterministic(device: str, threads: int) -> None:
    """Make this process compute exactly like the others of its training.

    On CUDA, an operation without a deterministic kernel raises an error. With only a warning, the
    backward pass of attention would have no fixed order, and a resumed training would end with
    other weights.
    """
    torch.set_num_threads(threads)
    if device == "cuda":
        # cuBLAS reads this when it starts, so it must be set before the first product.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        set_products()
        torch.use_deterministic_algorithms(True)
