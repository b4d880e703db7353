import pytest

from raypipe.config import yaml as document
from raypipe.config.yaml import MAX_BYTES, Document, Problem, in_words, parse_yaml
from raypipe.errors import InputError, did_you_mean, listed


def parsed(text: str) -> Document:
    return parse_yaml(text, origin=lambda line: f"a.yaml: line {line}")


def test_values_keep_the_line_of_their_key():
    found = parsed("a: 1\nb:\n  - x\n  - c: true\n    d: null\n")
    assert found.data == {"a": 1, "b": ["x", {"c": True, "d": None}]}
    assert found.origins[("b",)] == "a.yaml: line 2"
    assert found.origins[("b", 0)] == "a.yaml: line 3"
    assert found.origins[("b", 1, "d")] == "a.yaml: line 5"


def test_a_problem_with_a_missing_key_stands_at_its_parent():
    found = parsed("a:\n  b: {c: 1}\n")
    assert found.describe(Problem(("a", "b", "x", "y"), "missing")) == (
        "a.yaml: line 2: a.b.x.y: missing"
    )
    assert found.describe(Problem((), "odd")) == "a.yaml: line 1: odd"


def test_keys_are_text_whatever_yaml_makes_of_them():
    assert parsed("no: 1\n2021: 2\n1.5: 3\n").data == {"no": 1, "2021": 2, "1.5": 3}


def test_a_key_given_twice_is_a_problem_that_names_both_lines():
    found = parsed("a: 1\nb: 2\na: 3\n")
    assert found.data == {"a": 1, "b": 2}
    assert [found.describe(problem) for problem in found.problems] == [
        "a.yaml: line 1: a: given again at a.yaml: line 3; keep one of them"
    ]


def test_aliases_become_values_of_their_own():
    found = parsed("a: &x [1, 2]\nb: *x\n")
    found.data["a"][0] = 9
    assert found.data == {"a": [9, 2], "b": [1, 2]}


def test_aliases_that_multiply_are_refused_before_memory_is():
    doubled = "".join(f"l{i}: &l{i} [*l{i - 1}, *l{i - 1}]\n" for i in range(1, 64))
    with pytest.raises(InputError, match="more than 20,000 values"):
        parsed("l0: &l0 [x, x]\n" + doubled)


def test_values_without_end_are_refused_before_all_are_read(monkeypatch):
    monkeypatch.setattr(document, "MAX_VALUES", 50)
    read = []
    fetch = document.yaml.SafeLoader.fetch_more_tokens
    counting = lambda loader: (read.append(loader.index), fetch(loader))[1]  # noqa: E731
    monkeypatch.setattr(document.yaml.SafeLoader, "fetch_more_tokens", counting)
    with pytest.raises(InputError, match=r"a\.yaml: line 1: more than 50 values"):
        parsed("a: [" + "1," * 400_000 + "1]")
    assert max(read) < 1000
    assert len(parsed("a: [" + "1," * 47 + "1]").data["a"]) == 48


def test_lists_in_each_other_are_read_to_the_hundredth():
    data, depth = parsed("[" * 100 + "1" + "]" * 100).data, 0
    while data != 1:
        (data,), depth = data, depth + 1
    assert depth == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1, 2\nb: 3\n", "line 2: not YAML: .*expected ',' or ']'"),
        ("a: 1\n--- \nb: 2\n", "not YAML: .*single document"),
        ("a: {b: ${X}}\n", "line 1: not YAML: .*inside { } and \\[ ] quote"),
        ("a: *b\n", "line 1: not YAML: .*undefined alias"),
        ("a: \x07\n", "not YAML: .*special characters"),
        ("a: &a [*a]\n", "line 1: a.0: an alias inside its own anchor"),
        ("[" * 20_000, "nested too deeply"),
        ("[" * 101 + "1" + "]" * 101, "nested too deeply"),
        ("#" * (MAX_BYTES + 1), "expected at most 1,000,000 characters, found 1,000,001"),
    ],
)
def test_text_that_is_no_recipe_is_refused_in_one_line(text: str, message: str):
    with pytest.raises(InputError, match=message) as caught:
        parsed(text)
    assert len(caught.value.problems) == 1
    assert "\n" not in caught.value.problems[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!python/object:os.system {}\n", "tag 'tag:yaml.org,2002:python/object:os.system'"),
        ("a: !mine [x]\n", "the tag '!mine' has no meaning in a recipe"),
        ("a: !!set {x}\n", "the tag 'tag:yaml.org,2002:set' has no meaning in a recipe"),
        ("a: !mine x\n", "could not determine a constructor for the tag '!mine'"),
        ("a: 2026-13-45\n", "text '2026-13-45': month must be in 1..12"),
        ("? [1, 2]\n: x\n", "expected a word as a key, found a list or mapping"),
    ],
)
def test_odd_values_are_problems_beside_others(text: str, message: str):
    found = parsed(text)
    assert len(found.problems) == 1
    assert message in found.problems[0].text


def test_an_empty_document_is_nothing():
    assert parsed("# only a comment\n").data is None
    assert document.dotted(("a", 0, "b")) == "a.0.b"


def test_values_are_shown_as_a_reader_names_them():
    values = [None, True, "ten", {}, [1], (), 7, 0.5]
    assert [in_words(value) for value in values] == [
        "nothing", "true", "text 'ten'", "a mapping", "a list", "a list", "7", "0.5",
    ]  # fmt: skip
    assert in_words("x" * 58) == f"text '{'x' * 58}'"
    assert in_words("x" * 59) == f"text '{'x' * 59}..."
    assert did_you_mean("zzz", ["bm25"]) == ";" and listed([]) == "none" and listed("ab") == "a, b"
