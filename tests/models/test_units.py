"""Units of a reranker, as config.json and its settings say."""

import pytest

from raypipe.errors import InputError
from raypipe.models.tensors import check_units, expected_units, is_reranker, unit_names


def test_a_reranker_is_known_by_its_architecture():
    assert is_reranker({"architectures": ["X", "BertForSequenceClassification"]})
    others = ({}, {"architectures": None}, {"architectures": ["BertModel"]})
    assert not any(is_reranker(config) for config in others)


def test_units_are_named_by_their_numbers():
    assert unit_names(2) == {
        "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
        "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    }


@pytest.mark.parametrize(("label", "expected"), [(None, 1), (0, 2), (1, 2)])
def test_a_head_of_other_units_than_the_settings_expect_is_refused(label, expected):
    assert expected_units(label) == expected
    check_units(expected, label)
    shown = "null" if label is None else label
    told = rf"has 3 units, the settings .relevant_label: {shown}. expect {expected};"
    with pytest.raises(InputError, match=told):
        check_units(3, label)
