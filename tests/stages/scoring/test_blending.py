from dataclasses import replace

import pytest

from raypipe.errors import InputError
from raypipe.models.folder.settings import PRESETS
from raypipe.ranking.blend import Blend
from raypipe.stages.scoring.rerank import MOST, blend_and_depth, blend_of

MONO = PRESETS["monobert"]
LOG = "log-probability"


def test_the_weight_is_that_given_or_else_the_models_and_0_is_none():
    own = replace(MONO, blend=2.0)
    assert blend_of(MONO, None) is None and blend_of(own, 0.0) is None
    assert blend_of(own, None) == Blend(2.0, LOG) and blend_of(own, 3.0) == Blend(3.0, LOG)
    assert blend_of(MONO, 3.0) == Blend(3.0, LOG)


def test_over_bm25_alone_a_model_may_have_another_weight():
    own = replace(MONO, blend=2.0, blend_over_bm25=0.5)
    assert blend_of(own, None, over_bm25=True) == Blend(0.5, LOG)
    assert blend_of(own, 3.0, over_bm25=True) == Blend(3.0, LOG)
    assert blend_of(own, None) == Blend(2.0, LOG)
    assert blend_of(replace(own, blend_over_bm25=0.0), None, over_bm25=True) is None
    assert blend_of(replace(own, blend_over_bm25=None), None, over_bm25=True) == Blend(2.0, LOG)


@pytest.mark.parametrize(
    ("score", "label"), [("raw", 1), ("probability", 1), ("probability", None)]
)
def test_scores_without_the_log_odds_are_refused(score, label):
    conventions = replace(MONO, score=score, relevant_label=label)
    assert blend_of(conventions, None) is None
    with pytest.raises(
        InputError, match=f"scores of the scale {score} do not tell; expected score"
    ):
        blend_of(conventions, 1.5)


def test_a_weight_whose_sums_may_leave_the_range_of_the_scores_is_refused():
    assert blend_of(MONO, MOST) == Blend(MOST, LOG)
    for own, weight in ((MONO, 1.01 * MOST), (replace(MONO, blend=1e39), None)):
        with pytest.raises(InputError, match=r"blend: expected at most 1e\+30, found 1"):
            blend_of(own, weight)


def test_the_raw_score_of_one_unit_is_its_log_odds():
    one = replace(MONO, score="raw", relevant_label=None)
    assert blend_of(one, 1.5) == Blend(1.5, "raw")
    assert blend_of(replace(one, score=LOG), 1.5) == Blend(1.5, LOG)


def test_a_store_tells_its_blend_and_k0(stores):
    assert blend_and_depth(stores.run([(0, 1, 2.0)])) is None
