"""A checkpoint's tensors, a reranker's units and a duoBERT's third segment, by hand."""

import pytest
import torch

from raypipe.errors import InputError
from raypipe.models.tensors import (
    is_reranker,
    unit_names,
    with_third_segment,
)


def test_a_reranker_is_known_by_its_architecture():
    assert is_reranker({"architectures": ["X", "BertForSequenceClassification"]})
    others = ({}, {"architectures": None}, {"architectures": ["BertModel"]})
    assert not any(is_reranker(config) for config in others)


def test_units_are_named_by_their_numbers():
    assert unit_names(2) == {
        "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
        "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    }


def test_third_rows_are_zeros_or_copies_of_row_1():
    table = torch.tensor([[1.0, 2], [3, 4]])
    assert with_third_segment(table, "zero").tolist() == [[1, 2], [3, 4], [0, 0]]
    assert with_third_segment(table, "copy").tolist() == [[1, 2], [3, 4], [3, 4]]
    three = torch.arange(6.0).view(3, 2)
    assert with_third_segment(three, None) is three
    for bad in ((table, None), (three, "zero")):
        with pytest.raises(InputError):
            with_third_segment(*bad)


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("choice", [None, "zero", "copy"])
def test_a_table_of_fewer_rows_is_no_duoberts(rows, choice):
    with pytest.raises(InputError, match=f"has {rows} segment rows; name a BERT"):
        with_third_segment(torch.zeros(rows, 2), choice)
