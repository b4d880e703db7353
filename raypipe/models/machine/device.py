"""A device: how much it computes at once, and what determines its last bits.

To these belong the library of matrix products and its mode, read from the library itself.
"""

import ctypes
import platform
import re
from functools import cache
from pathlib import Path

import torch

LIBRARIES = ("libtorch_cpu.so", "libtorch_cpu.dylib")
ALL, BRANCH, STRICT = -1, 0xFFFF, 0x10000
OFF, AUTO = 1, 2
BRANCHES = {
    2: "AUTO",
    3: "COMPATIBLE",
    4: "SSE2",
    6: "SSSE3",
    7: "SSE4_1",
    8: "SSE4_2",
    9: "AVX",
    10: "AVX2",
    12: "AVX512",
    14: "AVX512_E1",
}
"""Source: the named constants of MKL's mkl_types.h, 2024.2.

On a CPU that is not Intel's, MKL names no kernels: the ones it would choose are `AUTO` too.
"""


@cache
def blas() -> str:
    """Library and mode of products on the CPU: `mkl 2024.2 AVX512_E1,STRICT`, or another vendor.

    The mode is fixed by MKL's first call, which may be this one: MKL_CBWR must be set before.
    """
    vendor = vendor_of(torch.__config__.show())
    return f"{vendor} {mkl_mode()}" if vendor.startswith("mkl") else vendor


def mkl_mode() -> str:
    """MKL's mode for reproducible results that is in force now.

    `AVX2,STRICT` and so on: the kernels, and whether sums have one order for any rows and threads;
    `off (AVX2)` if no mode was set; `AUTO` for kernels that MKL does not name; `unknown` if torch's
    library does not say.
    """
    found = _from_library()
    return "unknown" if found is None else mode_name(*found)


def mode_name(settings: int, auto_branch: int) -> str:
    """The mode in words, from the results of MKL's two functions."""
    branch = settings & BRANCH
    kernels = auto_branch if branch <= AUTO else branch
    name = BRANCHES.get(kernels, f"branch {kernels}")
    if branch <= OFF:
        return f"off ({name})"
    return f"{name},STRICT" if settings & STRICT else name


def vendor_of(build: str) -> str:
    """`mkl 2024.2`, `openblas`, `accelerate`: from the description of torch's build."""
    mkl = re.search(r"Math Kernel Library Version (\S+?)-Product", build)
    if mkl:
        return f"mkl {mkl[1]}"
    named = re.search(r"BLAS_INFO=(\w+)", build)
    if not named:
        return "unknown blas"
    return "openblas" if named[1] == "open" else named[1].lower()


def _from_library() -> tuple[int, int] | None:
    """MKL's settings and the kernels that it would choose itself; None if it cannot be asked."""
    folder = Path(torch.__file__).parent / "lib"
    for path in (folder / name for name in LIBRARIES):
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        # MKL is linked into torch, as in its wheels, or is a separate library, as in conda.
        for settings, auto in (
            ("mkl_serv_cbwr_get", "mkl_serv_cbwr_get_auto_branch"),
            ("MKL_CBWR_Get", "MKL_CBWR_Get_Auto_Branch"),
        ):
            if hasattr(library, settings) and hasattr(library, auto):
                return int(getattr(library, settings)(ALL)), int(getattr(library, auto)())
    return None


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
