import torch

from raypipe.models.machine import device
from raypipe.models.machine.device import numerics_class


def test_the_class_says_what_is_not_proven_and_names_library_and_mode():
    proven = numerics_class("cpu")
    assert device.blas() in proven and torch.__version__ in proven and proven.endswith(", fp32")
    assert numerics_class("cpu", proven=False) == f"{proven}, neighbours: unproven"
