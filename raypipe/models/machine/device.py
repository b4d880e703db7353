"""A device: how much it computes at once, and what determines its last bits."""

import platform

import torch

from raypipe.models.machine.blas import blas

BUDGET_TOKENS = {"cpu": 2048, "cuda": 32768}
"""Default number of tokens in one forward pass; it changes no byte."""
MOST_TOKENS = {"cpu": 8192, "cuda": 32768}
"""Largest budget: more gains nothing, and the test of neighbouring rows goes up to this."""

TOKENS_BY_GPU = (
    ("B200", 32768),
    ("H200", 32768),
    ("H100", 32768),
    ("A100", 32768),
    ("L40", 16384),
    ("A10", 16384),
    ("L4", 16384),
    ("V100", 16384),
    ("T4", 8192),
)
"""Tokens of a pass of fixed shape by a part of the GPU's name, the first one counts. A proposal:
enough that launching a kernel takes less time than running it. It was never measured."""
TOKENS_OF_OTHERS = 16384


def tokens_of_pass(device: str) -> int:
    """Tokens of a pass of fixed shape on this machine's `cpu` or `cuda`."""
    if device != "cuda":
        return BUDGET_TOKENS[device]
    name = torch.cuda.get_device_name(0)
    return next((n for part, n in TOKENS_BY_GPU if part in name), TOKENS_OF_OTHERS)


def numerics_class(
    device: str, *, precision: str = "fp32", proven: bool = True, how: str = ""
) -> str:
    """The name of the numerics class here: equal bytes are promised within one class.

    If it is not `proven`, a row's bytes may depend on its neighbours, and equal bytes are not
    promised. Even then the name leaves out the threads: the neighbours alone may differ between
    runs. `how` says what else the last bits depend on.
    """
    if device == "cuda":
        where, library = torch.cuda.get_device_name(0), f"cuda {torch.version.cuda}"
    else:
        where = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
        library = blas()
    name = f"{where}, torch {torch.__version__}, {library}, {precision}" + (
        f", {how}" if how else ""
    )
    return name if proven else f"{name}, neighbours: unproven"
