import pytest

from raypipe.config.training.recipe import TrainedModel
from raypipe.errors import InputError
from raypipe.models.folder.presets import PRESETS
from raypipe.training.job import conventions_of_training


def test_a_recipe_lays_its_limits_over_the_presets():
    mono = conventions_of_training(TrainedModel(start="x", preset="monobert", query_limit=7))
    assert (mono.query_limit, mono.total_limit) == (7, PRESETS["monobert"].total_limit)
    assert mono.relevant_label == PRESETS["monobert"].relevant_label
    one = conventions_of_training(TrainedModel(start="x", preset="monobert", head=1))
    assert one.relevant_label is None
    duo = conventions_of_training(TrainedModel(start="x", preset="duobert"))
    assert duo.segment_row == "copy"
    zero = conventions_of_training(TrainedModel(start="x", preset="duobert", segment_row="zero"))
    assert zero.segment_row == "zero"
    with pytest.raises(InputError, match=r"model\.total_limit: an encoder has"):
        conventions_of_training(TrainedModel(start="x", preset="repbert", total_limit=9))
    encoder = conventions_of_training(TrainedModel(start="x", preset="repbert", passage_limit=9))
    assert encoder.passage_limit == 9
