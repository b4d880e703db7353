"""What a checkpoint's tensors lack, by hand."""

from raypipe.models.tensors import shape_problems


def test_tensors_that_are_missing_or_of_another_shape_are_told_in_the_order_expected():
    expected = {"a": (2,), "b": (3, 4), "c": (1,), "d": (5,)}
    held = {"c": ("x.c", (1,)), "b": ("x.b", (4, 3)), "other": ("x.other", (9,))}
    assert shape_problems(expected, held) == [
        "the checkpoint lacks the tensor a, which config.json says it has",
        "the checkpoint lacks the tensor d, which config.json says it has",
        "x.b: config.json says [3, 4], the checkpoint has [4, 3]",
    ]
