"""Packaged recipes and those of docs/experiments, with a value for each of their variables."""

from pathlib import Path

from raypipe.config.load import load_recipe, recipe_text
from raypipe.config.recipe import Recipe

EXPERIMENTS = sorted((Path(__file__).parents[2] / "docs" / "experiments").glob("*.yaml"))

ENV = {"RAYPIPE_DATA": "/data", "MSMARCO": "/msmarco", "MODELS": "/models"}
ENV |= {
    "PACKAGES": "/packages",
    "RUN": "/run.trec",
    "DOCS": "/docs",
    "OWN": "/own",
    "RUNS": "/runs",
    "TRECCAR": "/treccar",
    "SCORED": "/scored.trec",
    "TRAINED": "/trained",
    "JUDGED": "/judged.txt",
    "LISTS": "/lists.trec",
    "MSMARCO_V2": "/msmarco-v2",
    "BEIR": "/beir",
    "GENERAL": "/general",
    "TAUGHT": "/taught",
    "SOURCE": "/general/docs",
    "LONGEVAL": "/longeval",
}


def packaged(name: str) -> Recipe:
    return load_recipe(recipe_text(name), env=ENV, source=name)


def experiment(name: str) -> str:
    """The text of a recipe of docs/experiments."""
    (path,) = (path for path in EXPERIMENTS if path.stem == name)
    return path.read_text()
