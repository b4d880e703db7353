import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.config.load import load_recipe
from raypipe.config.yaml import Document, escaped, expand


def expanded(data: object, **env: str) -> object:
    document = Document(data)
    assert expand(document, env) == []
    return document.data


def test_variables_are_expanded_in_strings_wherever_they_stand():
    data = {"a": "${X}/b", "c": [1, "${X}${Y}", {"d": "$X ${Y}!"}]}
    assert expanded(data, X="x", Y="y") == {"a": "x/b", "c": [1, "xy", {"d": "$X y!"}]}


def test_a_value_is_not_expanded_again():
    assert expanded("${X}", X="${Y}") == "${Y}"


def test_two_dollars_make_a_plain_one():
    assert expanded("$${X} and $$ and $", X="x") == "${X} and $$ and $"


@pytest.mark.parametrize("text", ["${}", "${a b}", "${open", "${1}"])
def test_what_names_no_variable_is_a_problem(text: str):
    (problem,) = expand(Document({"a": text}), {"a": "x"})
    assert problem.key == ("a",)
    assert "write $${ for a plain ${" in problem.text


@given(st.text("${}XY", max_size=12))
def test_escaped_text_comes_back(text: str):
    assert expanded(escaped({"a": [text]})) == {"a": [text]}


def test_unset_variables_are_all_told_each_once_with_its_places(text: str, problems):
    recipe = text.replace("dev.tsv", '"${DATA}/dev.tsv"').replace("dev.txt", '"${DATA}/dev.txt"')
    recipe = recipe.replace("path: minilm", "path: '${MODELS}/m'")
    assert problems(recipe, env={}, source="a.yaml") == [
        "a.yaml: line 5: queries.dev.file: the variable ${DATA} is not set"
        " (also in queries.dev.qrels); set DATA or write the value itself",
        "a.yaml: line 8: models.encoder.path: the variable ${MODELS} is not set;"
        " set MODELS or write the value itself",
    ]


def test_the_environment_itself_is_not_read(text: str, problems, monkeypatch):
    monkeypatch.setenv("RAYPIPE_TEST_PATH", "/somewhere")
    recipe = text.replace("collection.tsv", "'${RAYPIPE_TEST_PATH}'")
    assert "RAYPIPE_TEST_PATH} is not set" in problems(recipe)[0]
    loaded = load_recipe(recipe, env={"RAYPIPE_TEST_PATH": "/elsewhere"})
    assert loaded.collection.input == ("/elsewhere",)


def test_a_value_with_yaml_signs_stays_text(text: str):
    recipe = text.replace("input: collection.tsv", 'input: "/${X}"')
    assert load_recipe(recipe, env={"X": "a: [b, #c"}).collection.input == ("/a: [b, #c",)


def test_overrides_are_expanded_and_recorded_as_given(text: str):
    override = "queries.test.file=${Q}/test.tsv"
    recipe = load_recipe(text, overrides=[override], env={"Q": "/q"})
    assert recipe.queries["test"].file == "/q/test.tsv"
    assert recipe.overrides == (override,)
