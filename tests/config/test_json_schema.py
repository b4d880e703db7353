"""The JSON Schema that editors read takes every packaged recipe and tells what raypipe refuses."""

import json
from functools import cache
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from packaged_recipes import EXPERIMENTS

from raypipe.config.keys import json_schema

RECIPES = [*sorted((Path(__file__).parents[2] / "jobs/configs").glob("*.yaml")), *EXPERIMENTS]
PIPELINE = {
    "format": 1,
    "name": "small",
    "collection": {"format": "msmarco-v1", "input": "passages.tsv"},
    "queries": {"dev": {"file": "queries.tsv"}},
    "stages": {"lucene": {"do": "index"}, "bm25": {"do": "search", "index": "lucene"}},
}


schema = cache(json_schema)


@cache
def validator():
    Draft202012Validator.check_schema(schema())
    return Draft202012Validator(schema())


def problems(recipe):
    """Where the schema finds something wrong."""
    return [error.json_path for error in validator().iter_errors(recipe)]


def test_a_packaged_recipe_has_no_problem():
    for path in RECIPES:
        assert problems(yaml.load(path.read_text(), yaml.CSafeLoader)) == []


def training(**changed):
    (found,) = [path for path in RECIPES if path.stem == "repbert"]
    return {**yaml.load(found.read_text(), yaml.CSafeLoader), **changed}


def phased():
    (found,) = [path for path in RECIPES if path.stem == "cip-run1"]
    return yaml.load(found.read_text(), yaml.CSafeLoader)


def without(recipe, key):
    return {name: value for name, value in recipe.items() if name != key}


WRONG = {
    "an unknown key": ({**PIPELINE, "quereis": {}}, "$"),
    "a missing key": (without(PIPELINE, "collection"), "$"),
    "a word that is none of the values": (
        {**PIPELINE, "collection": {"format": "docx", "input": "x"}},
        "$.collection.format",
    ),
    "a list of numbers for paths": (
        {**PIPELINE, "collection": {"format": "beir", "input": [1]}},
        "$.collection.input",
    ),
    "an unknown kind of stage": ({**PIPELINE, "stages": {"x": {"do": "dance"}}}, "$.stages.x"),
    "a training without steps in words": (training(steps="many"), "$.steps"),
    "a stage in a training": (training(stages={}), "$"),
    "a training without a model": (without(training(), "model"), "$"),
    "a phase without a name": (
        {**phased(), "phases": [without(phased()["phases"][0], "name")]},
        "$.phases[0]",
    ),
    "a shared key in a phase": (
        {**phased(), "phases": [{"name": "x", "resources": {}}]},
        "$.phases[0]",
    ),
    "no phases": ({**phased(), "phases": []}, "$.phases"),
}


@pytest.mark.parametrize("recipe, where", WRONG.values(), ids=WRONG)
def test_what_raypipe_refuses_by_its_types_is_told_where_it_is(recipe, where):
    assert problems(recipe) == [where]


def test_a_recipe_of_one_path_or_a_list_of_them_is_taken():
    assert problems(PIPELINE) == []
    several = {"format": "msmarco-v1", "input": ["a.tsv", "b.tsv"]}
    assert problems({**PIPELINE, "collection": several}) == []


def test_a_key_has_its_docstring_and_its_default():
    pipeline, phased = schema()["$defs"]["pipeline"], schema()["$defs"]["phased"]
    resources = pipeline["$defs"]["Resources"]["properties"]
    assert resources["precision"]["default"] == "auto"
    assert resources["precision"]["description"].startswith("Of the models' products; auto: fp32")
    assert phased["properties"]["phases"]["items"]["properties"]["after"]["description"]
    search = pipeline["$defs"]["Search"]["properties"]
    assert search["depth"]["default"] == 1000


def test_the_command_prints_the_schema_and_takes_no_name(raypipe_here):
    done = raypipe_here("recipes", "--json-schema")
    assert done.returncode == 0 and json.loads(done.stdout) == schema()
    refused = raypipe_here("recipes", "nfcorpus", "--json-schema")
    assert refused.returncode == 2 and "nfcorpus: not with --json-schema" in refused.stderr
