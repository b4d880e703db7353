"""The library of matrix products and its mode, read from the library itself."""

import ctypes
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
