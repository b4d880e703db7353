"""A device: how much it computes at once, and what determines its last bits."""

import platform

import torch

from raypipe.models.blas import blas

BUDGET_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Default number of tokens in one forward pass; it changes no byte."""
MOST_TOKENS = {"cpu": 8192, "cuda": 32768}
"""Largest budget: more gains nothing, and the test of neighbouring rows goes up to this."""


def full_precision() -> None:
    """Multiply fp32 matrices in fp32 in this process: TF32 keeps only 10 of an input's 23 bits.

    It is torch's default, but NVIDIA's containers switch TF32 on by an environment variable.
    """
    torch.set_float32_matmul_precision("highest")


def numerics_class(device: str, *, proven: bool = True) -> str:
    """The name of the numerics class here: equal bytes are promised within one class.

    If it is not `proven`, a row's bytes may depend on its neighbours, and equal bytes are not
    promised. Even then the name leaves out the threads: the neighbours alone may differ between
    runs.
    """
    if device == "cuda":
        where, library = torch.cuda.get_device_name(0), f"cuda {torch.version.cuda}"
    else:
        where = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
        library = blas()
    name = f"{where}, torch {torch.__version__}, {library}, fp32"
    return name if proven else f"{name}, neighbours: unproven"
