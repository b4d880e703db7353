"""A device: how much it computes at once, and what determines its last bits."""

import platform

import torch

from raypipe.models.machine.blas import blas

BUDGET_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Default number of tokens in one forward pass; it changes no byte."""
MOST_TOKENS = {"cpu": 8192, "cuda": 32768}
"""Largest budget: more gains nothing, and the test of neighbouring rows goes up to this."""


def numerics_class(device: str, *, precision: str = "fp32", proven: bool = True) -> str:
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
    name = f"{where}, torch {torch.__version__}, {library}, {precision}"
    return name if proven else f"{name}, neighbours: unproven"
