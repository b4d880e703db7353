"""A device: how much it computes at once, and what there decides the last bits."""

import platform

import torch

from raypipe.models.blas import blas

BUDGET_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Tokens of one forward where nothing else is said; they change no byte."""
MOST_TOKENS = {"cpu": 8192, "cuda": 32768}
"""A larger budget is cut to this: it gains nothing, and the probe of neighbours goes as far."""


def full_precision() -> None:
    """Products of fp32 matrices in fp32, in this process: TF32 keeps 10 bits of an input's 23.

    It is torch's default, but NVIDIA's containers switch TF32 on by an environment variable.
    """
    torch.set_float32_matmul_precision("highest")


def numerics_class(device: str, *, proven: bool = True) -> str:
    """The name of what decides the last bits here: equal bytes are promised within one class.

    Not `proven`: where a row's bytes depend on its neighbours, equal bytes are promised nowhere.
    The threads are not named even then: the neighbours alone may differ from run to run.
    """
    if device == "cuda":
        where, library = torch.cuda.get_device_name(0), f"cuda {torch.version.cuda}"
    else:
        where = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
        library = blas()
    name = f"{where}, torch {torch.__version__}, {library}, fp32"
    return name if proven else f"{name}, neighbours: unproven"
