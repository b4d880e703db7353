import os
import subprocess
import sys

import pytest

from raypipe import numerics
from raypipe.models.machine import device


@pytest.mark.parametrize(
    ("settings", "auto", "name"),
    [
        (1, 14, "off (AVX512_E1)"),
        (0, 10, "off (AVX2)"),
        (2, 10, "AVX2"),
        (0x10002, 12, "AVX512,STRICT"),
        (0x1000A, 14, "AVX2,STRICT"),
        (3, 14, "COMPATIBLE"),
        (1, 2, "off (AUTO)"),
        (0x10002, 2, "AUTO,STRICT"),
        (0x10063, 14, "branch 99,STRICT"),
    ],
)
def test_a_mode_is_named_by_its_kernels(settings, auto, name):
    assert device.mode_name(settings, auto) == name


def test_the_vendor_is_read_from_torchs_own_description():
    mkl = "  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for"
    assert device.vendor_of(mkl) == "mkl 2024.2"
    assert device.vendor_of("Build settings: BLAS_INFO=open, BUILD_TYPE=Release") == "openblas"
    assert device.vendor_of("LAPACK_INFO=x, BLAS_INFO=accelerate, CXX") == "accelerate"
    assert device.vendor_of("nothing") == "unknown blas"


CHILD = """
import os
before = dict(os.environ)
import raypipe
import raypipe.models.encoder
assert dict(os.environ) == before
from raypipe.models.machine.device import blas
print(blas())
"""


@pytest.mark.slow
@pytest.mark.parametrize("given", [None, "AUTO,STRIKT"])
def test_the_mode_in_force_is_read_back_and_importing_raypipe_sets_none(given):
    """A misspelt mode is passed over by MKL in silence."""
    if not device.blas().startswith("mkl"):
        pytest.skip(f"no MKL here: {device.blas()}")
    kept = {k: v for k, v in os.environ.items() if k != numerics.VARIABLE}
    environment = kept if given is None else {**kept, numerics.VARIABLE: given}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.strip()
    assert told.startswith("mkl ") and "STRICT" not in told, told
    assert ("off (" in told) == (given is None), told


def test_the_tests_themselves_run_in_strict_mode():
    if not device.blas().startswith("mkl") or os.environ[numerics.VARIABLE] != numerics.STRICT:
        pytest.skip(f"no MKL here, or a mode of the user's own: {device.blas()}")
    assert device.blas().endswith(",STRICT")


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (3, "COMPATIBLE"), (4, "SSE2"), (6, "SSSE3"), (7, "SSE4_1"), (8, "SSE4_2"), (9, "AVX"),
        (10, "AVX2"), (12, "AVX512"), (14, "AVX512_E1"), (5, "branch 5"),
    ],
)  # fmt: skip
def test_mkls_own_numbers_of_kernels(number, name):
    assert device.mode_name(number, 14) == name
    assert device.mode_name(1, number) == f"off ({name})"
