"""Fingerprints: each field counts, and a change is told by its name."""

import dataclasses
import json
import os

import pytest

from raypipe.storage.records import canonical
from raypipe.storage.spec import StageSpec, settings_digest

SPEC = StageSpec(
    "encode",
    1,
    {"weights_sha256": "0" * 64, "limits": {"passage": 256, "query": 20}},
    {"tokens": "a" * 64},
    "vectors",
    {"tokens": "tokens@m/1"},
)


@pytest.mark.fault(21, "every changed field changes the fingerprint and is named")
@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("stage", "tokenize", "stage encode -> tokenize"),
        ("semantics", 2, "semantics 1 -> 2"),
        (
            "params",
            {"weights_sha256": "1" * 64, "limits": {"passage": 256, "query": 20}},
            "params.weights_sha256 000000000000 -> 111111111111",
        ),
        (
            "params",
            {"weights_sha256": "0" * 64, "limits": {"passage": 128, "query": 20}},
            "params.limits.passage 256 -> 128",
        ),
        ("inputs", {"tokens": "b" * 64}, "inputs.tokens aaaaaaaaaaaa -> bbbbbbbbbbbb"),
        ("produces", "run", "produces vectors -> run"),
    ],
)
def test_changing_a_field_changes_the_fingerprint_and_names_the_field(field, value, told):
    changed = dataclasses.replace(SPEC, **{field: value})
    assert changed.fingerprint() != SPEC.fingerprint()
    assert [str(change) for change in SPEC.diff(changed)] == [told]


def test_fingerprint_does_not_depend_on_the_order_of_keys():
    turned = dataclasses.replace(SPEC, params=dict(reversed(SPEC.params.items())))
    assert turned.fingerprint() == SPEC.fingerprint()
    assert SPEC.diff(turned) == []


def test_where_an_input_lies_is_in_the_fingerprint_and_is_no_change_of_its_own():
    moved = dataclasses.replace(SPEC, origins={"tokens": "tokens@m/2"})
    assert moved.fingerprint() != SPEC.fingerprint()
    assert SPEC.diff(moved) == SPEC.settings_diff(moved) == []
    assert StageSpec.from_json(json.loads(canonical(moved.to_json()))) == moved


def test_settings_diff_leaves_out_digests_of_content_but_not_a_new_input():
    other = dataclasses.replace(SPEC, inputs={"tokens": "b" * 64})
    more = dataclasses.replace(SPEC, inputs={"tokens": "a" * 64, "queries": "c" * 64})
    assert SPEC.settings_diff(other) == []
    assert [c.field for c in SPEC.settings_diff(more)] == ["inputs.queries"]
    assert [c.field for c in more.settings_diff(SPEC)] == ["inputs.queries"]


def test_another_number_of_files_is_content():
    one = dataclasses.replace(SPEC, inputs={"content:00000": "b" * 64})
    two = dataclasses.replace(SPEC, inputs={"content:00000": "c" * 64, "content:00001": "b" * 64})
    assert one.settings_diff(two) == two.settings_diff(one) == []
    assert [c.field for c in one.diff(two)] == ["inputs.content:00000", "inputs.content:00001"]


def test_the_digest_of_settings_alone_is_no_change_of_its_own():
    digest = settings_digest("encode", 1, {"a": 1})
    made = dataclasses.replace(SPEC, reuse_key=digest)
    assert SPEC.diff(made) == [] and made.to_json()["reuse_key"] == digest
    assert StageSpec.from_json(json.loads(canonical(made.to_json()))) == made
    assert made.without_derived().keys() == {"stage", "semantics", "params", "inputs", "produces"}


def test_stores_of_one_stage_version_and_settings_have_one_digest():
    digests = [
        settings_digest("encode", 1, {"a": 1, "b": 2}),
        settings_digest("tokenize", 1, {"a": 1, "b": 2}),
        settings_digest("encode", 2, {"a": 1, "b": 2}),
        settings_digest("encode", 1, {"a": 1, "b": 3}),
    ]
    assert len({*digests}) == 4 and all(len(one) == 64 for one in digests)
    assert settings_digest("encode", 1, {"b": 2, "a": 1}) == digests[0]


def test_a_field_set_to_null_differs_from_a_field_left_out():
    left_out = dataclasses.replace(SPEC, params={**SPEC.params, "prefix": None})
    assert left_out.fingerprint() != SPEC.fingerprint()
    assert [c.field for c in SPEC.diff(left_out)] == ["params.prefix"]


def test_a_change_from_or_to_nothing_is_told():
    old = StageSpec("s", 1, {"a": {}, "b": {"c": [1, 2]}, "h": "a" * 31}, {})
    new = StageSpec("s", 1, {"a": {"x": 1}, "b": {"c": [2, 1]}, "h": "a" * 33}, {"i": "f" * 32})
    assert [str(change) for change in old.diff(new)] == [
        "inputs {} -> null",
        f"inputs.i null -> {'f' * 12}",
        "params.a {} -> null",
        "params.a.x null -> 1",
        "params.b.c [1,2] -> [2,1]",
        f"params.h {'a' * 31} -> {'a' * 12}",
    ]
    assert len(old.fingerprint()) == 32 and json.loads(canonical(old.to_json()))["stage"] == "s"
    assert StageSpec.from_json(old.to_json()) == old
    assert os.sep not in old.fingerprint()
