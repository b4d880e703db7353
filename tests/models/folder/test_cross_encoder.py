import pytest

from raypipe.models.folder.cross_encoder import is_cross_encoder, num_labels_of


@pytest.mark.parametrize(
    ("config", "units"),
    [({}, 2), ({"num_labels": 1}, 1), ({"num_labels": 0}, 0), ({"id2label": {"0": "a"}}, 1),
     ({"num_labels": 3, "id2label": {"0": "a"}}, 3), ({"id2label": {}}, 2)],
)  # fmt: skip
def test_units_of_a_head_are_stated_named_or_two(config, units):
    assert num_labels_of(config) == units


def test_a_cross_encoder_is_known_by_its_architecture():
    assert is_cross_encoder({"architectures": ["X", "BertForSequenceClassification"]})
    assert not is_cross_encoder({"architectures": ["BertModel"]}) and not is_cross_encoder({})
