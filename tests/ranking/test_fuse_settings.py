import pytest
from ranked_tables import run

from raypipe.errors import InputError
from raypipe.ranking.fuse import fuse_tables


def test_settings_are_refused_only_where_they_are_wrong():
    a, b = run((0, 1, 1, 2.0)), run((0, 2, 1, 1.0))

    def problems(**settings):
        with pytest.raises(InputError) as caught:
            fuse_tables([a, b], scored_by="f", **settings)
        return caught.value.problems

    assert len(fuse_tables([a, b], method="rrf", k=0, depth=1, scored_by="f")) == 1
    assert len(fuse_tables([a, b], method="weighted", weights=[0, 1], scored_by="f")) == 2
    for k in (-0.5, float("inf"), float("nan")):
        assert problems(method="rrf", k=k) == [f"fuse: k: expected a number from 0; found {k}"]
    assert "depth: expected 1 or more; found 0" in problems(method="average", depth=0)[0]
    assert "weights are for method weighted" in problems(method="rrf", weights=[1, 1])[0]
    for weight in (float("inf"), float("nan"), -0.1):
        told = problems(method="weighted", weights=[1, weight])
        assert told == [f"fuse: weights: expected finite numbers from 0; found [1, {weight}]"]
    told = problems(method="weighted", weights=[0, 0.0])
    assert told == ["fuse: weights: expected one above 0, for something to rank by; found none"]
    told = problems(method="average", k=60)
    assert told == ["fuse: k is for method rrf; remove it or change 'average'"]
    assert "expected one of alternate, rrf" in problems(method="mean")[0]
    with pytest.raises(
        InputError, match="one run is cut at its depth, .* found method and k: remove"
    ):
        fuse_tables([a], method="rrf", k=3, scored_by="f")
    with pytest.raises(InputError, match="found weights: remove") as refused:
        fuse_tables([a], method=None, weights=[1], depth=0, scored_by="f")
    assert len(refused.value.problems) == 2
    with pytest.raises(InputError, match="method: expected one of alternate, .*; found None"):
        fuse_tables([a, b], method=None, scored_by="f")
