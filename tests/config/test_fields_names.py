"""Names that a recipe gives become names of folders and files: none leads elsewhere."""

import pytest

from raypipe.config.load import load_recipe
from raypipe.errors import InputError

HOSTILE = ["../x", "/etc/x", "a/b", "a\0b", "a\nb", "a b", "..", ".", "", "~", "a" * 65, "\u0430"]
PLACES = {
    "stage": lambda name: {"stages": {name: {"do": "index"}}},
    "query set": lambda name: {"queries": {name: {"file": "q.tsv"}}},
    "model": lambda name: {"models": {name: {"path": "minilm"}}},
    "recipe": lambda name: {"name": name},
}


def recipe(**changes):
    body = {"format": 1, "name": "mine", "collection": {"format": "msmarco-v1", "input": "c.tsv"}}
    return load_recipe({**body, "stages": {"lucene": {"do": "index"}}, **changes}, source="mine")


@pytest.mark.fault(39, "12 of 12 such names of stages, query sets, models and recipes are refused")
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("place", PLACES)
def test_a_name_that_could_lead_elsewhere_is_refused(place, name):
    recipe(**PLACES[place]("good-name-1"))
    with pytest.raises(InputError, match="lower-case letters, digits and hyphens"):
        recipe(**PLACES[place](name))
