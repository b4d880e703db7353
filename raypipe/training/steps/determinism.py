"""How a process of a training computes: threads, full precision, and kernels that add in order."""

import os

import torch

from raypipe.models.device import full_precision


def make_deterministic(device: str, threads: int) -> None:
    """Let this process compute as every other of its training does.

    On CUDA an operation without a deterministic kernel raises. With a warning alone the backward
    of attention keeps its order free, and a resumed training would end elsewhere.
    """
    torch.set_num_threads(threads)
    if device == "cuda":
        # Read when cuBLAS starts, so it must stand before the first product.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        full_precision()
        torch.use_deterministic_algorithms(True)
