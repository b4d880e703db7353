"""Loaded by every Python process whose PYTHONPATH has this folder: its CPU offers fp32 alone.

    PYTHONPATH=tests/helpers/cpu_of_fp32 python -m pytest

torch finds no instruction for bf16, fp16 or int8, and its libraries use none beyond AVX2, as on a
CPU without AVX-512. Products in bf16 are emulated there, at a tenth of the speed.
"""

import os
import sys
from importlib.machinery import PathFinder

os.environ |= {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


class OnlyFp32(PathFinder):
    """Finds torch.cpu, whose capabilities are none."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """The module's spec; None for every other module."""
        spec = super().find_spec(fullname, path, target) if fullname == "torch.cpu" else None
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                module.get_capabilities = dict

            spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, OnlyFp32)
