"""Settings beside what a model has: tensors, positions, segment rows, a third row."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from model_parts import CONFIG, DUO, ENCODER, MONO

from raypipe.models.bert.family import FAMILY
from raypipe.models.folder.files import fit_problems, longest_input
from raypipe.models.folder.settings import units_of


def problems(conventions, rows, layouts=None, *, without=(), units=None):
    """Those of a model with so many segment rows."""
    config = {**CONFIG, "type_vocab_size": rows}
    units = units or units_of(conventions)
    shapes = FAMILY.files.expected_shapes(config, num_labels=units)
    given = {f"bert.{name}": shape for name, shape in shapes.items() if name not in without}
    return fit_problems(given, config, conventions, layouts)


@pytest.mark.parametrize(
    ("rows", "choice", "good"),
    [(2, "zero", True), (2, "copy", True), (2, None, False), (3, None, True), (3, "copy", False),
     (4, None, True), (1, None, False), (1, "zero", False)],
)  # fmt: skip
def test_a_third_segment_row_is_added_to_two_and_to_no_other_number(rows, choice, good):
    duo = replace(DUO, segment_row=choice)
    assert (problems(duo, rows) == []) is good


@pytest.mark.parametrize(
    ("conventions", "rows", "told"),
    [
        (replace(ENCODER, passage_limit=14), 2, []),
        (replace(ENCODER, passage_limit=15), 2, ["17 tokens, the model has 16"]),
        (replace(ENCODER, query_limit=15), 2, ["17 tokens, the model has 16"]),
        (ENCODER, 1, ["segment 1, the model has 1"]),
        (replace(ENCODER, passage_segment=0, query_segment=1), 1, ["segment 1"]),
        (replace(ENCODER, passage_segment=0), 1, []),
        (MONO, 2, []),
        (MONO, 1, ["segment 1"]),
        (replace(MONO, total_limit=17), 2, ["17 tokens"]),
    ],
)
def test_limits_and_segments_beyond_the_model_are_told(conventions, rows, told):
    found = problems(conventions, rows)
    assert len(found) == len(told) and all(a in b for a, b in zip(told, found, strict=True))


def test_an_encoders_special_tokens_are_those_of_its_tokenizer():
    """A decoder has one; without a tokenizer two are counted."""
    longer = replace(ENCODER, passage_limit=15)
    layouts = {side: SimpleNamespace(num_specials=1) for side in ("query", "passage")}
    assert (longest_input(longer, layouts), longest_input(longer)) == (16, 17)
    assert problems(longer, 2, layouts) == []


def test_every_missing_tensor_of_a_body_or_head_is_named():
    body = ("encoder.layer.1.attention.self.key.bias", "embeddings.LayerNorm.weight")
    head = ("pooler.dense.bias", "classifier.weight")
    lacking = [f"the checkpoint lacks the tensor bert.{name}" for name in sorted(body)]
    assert problems(ENCODER, 2, without=(*body, *head)) == lacking
    of_pairs = ": it has no head that scores pairs"
    for name, shown in (("classifier.weight", "classifier.weight"), (head[0], f"bert.{head[0]}")):
        told = [f"the checkpoint lacks the tensor {shown}{of_pairs}"]
        assert problems(MONO, 2, without=[name]) == told


@pytest.mark.parametrize(("label", "units"), [(None, 2), (0, 1), (1, 3)])
def test_a_head_of_other_units_than_the_settings_expect_is_refused(label, units):
    own = replace(MONO, relevant_label=label)
    assert problems(own, 2) == []
    assert f"the head has {units} units, the settings expect" in problems(own, 2, units=units)[1]
