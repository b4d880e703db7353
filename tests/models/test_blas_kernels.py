import pytest

from raypipe.models import blas


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (3, "COMPATIBLE"), (4, "SSE2"), (6, "SSSE3"), (7, "SSE4_1"), (8, "SSE4_2"), (9, "AVX"),
        (10, "AVX2"), (12, "AVX512"), (14, "AVX512_E1"), (5, "branch 5"),
    ],
)  # fmt: skip
def test_mkls_own_numbers_of_kernels(number, name):
    assert blas.mode_name(number, 14) == name
    assert blas.mode_name(1, number) == f"off ({name})"
