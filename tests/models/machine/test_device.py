import torch

from raypipe.models.machine.device import (
    BUDGET_TOKENS,
    MOST_TOKENS,
    Place,
    blas,
    numerics_class,
    unproven,
)


def test_a_place_computes_what_is_asked_for_up_to_what_its_device_takes():
    place = Place("cpu", 500, "class")
    assert [place.budget(asked) for asked in (None, 7, 600)] == [500, 7, 600]
    assert place.budget(10**9) == MOST_TOKENS["cpu"]
    as_it_is = unproven("cpu")
    assert as_it_is == Place("cpu", BUDGET_TOKENS["cpu"], numerics_class("cpu", proven=False))
    assert as_it_is.numerics.endswith("neighbours: unproven")


def test_the_class_says_what_is_not_proven_and_names_library_and_mode():
    proven = numerics_class("cpu")
    assert blas() in proven and torch.__version__ in proven and proven.endswith(", fp32")
    assert numerics_class("cpu", proven=False) == f"{proven}, neighbours: unproven"
