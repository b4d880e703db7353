import pytest

from raypipe.errors import InputError
from raypipe.leaderboard.findings import broken, does_not_apply, holds, refuse_broken


def test_only_a_broken_rule_refuses():
    refuse_broken([holds("a", "x"), does_not_apply("b", "y")])
    with pytest.raises(InputError) as caught:
        refuse_broken([holds("a", "x"), broken("b", "y"), broken("c", "z")])
    assert caught.value.problems == ["b: y", "c: z"]
    assert (holds("a", "x").applies, broken("a", "x").applies) == (True, True)
    assert not does_not_apply("a", "x").applies and does_not_apply("a", "x").ok
