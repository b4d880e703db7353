"""Pipeline recipes of a training's collections, query sets and runs, from which parts are taken."""

from collections.abc import Sequence
from typing import Any

from raypipe.config import Recipe, Training, load_recipe
from raypipe.config.training.recipe import TrainingSet
from raypipe.driver.training.teachers import teacher_of


def parts_recipe(recipe: Training, name: str) -> Recipe:
    """A recipe with a collection, its query sets and their runs, from which parts are taken."""
    queries: dict[str, Any] = {}
    stages: dict[str, Any] = {}
    for group, wanted in recipe.train.items():
        if wanted.collection == name and wanted.queries is not None:
            query_set = f"train-{group}"
            queries[query_set] = {"file": wanted.queries}
            if wanted.qrels is not None and wanted.triples is None:
                queries[query_set] |= {"qrels": wanted.qrels, "only_judged": True}
            for number, path in enumerate(runs_of(wanted)):
                stages[f"{query_set}-run-{number}"] = {"do": "read", "runs": {query_set: path}}
            if wanted.teacher is not None:
                stages[f"{query_set}-teacher"] = {
                    "do": "read",
                    "runs": {query_set: teacher_of(wanted.teacher)[0]},
                }
    for group, dev in recipe.dev.items():
        if dev.collection == name:
            query_set = f"dev-{group}"
            queries[query_set] = {"file": dev.queries, "qrels": dev.qrels, "only_judged": True}
            stages[f"{query_set}-run"] = {"do": "read", "runs": {query_set: dev.run}}
    body = {
        "format": 1,
        "name": recipe.name,
        "collection": recipe.collections[name].model_dump(mode="json", exclude_none=True),
        "queries": queries,
        "models": {model_name(recipe): {"path": recipe.model.start}},
        "stages": stages,
    }
    return load_recipe(body, source=recipe.name)


def model_name(recipe: Training) -> str:
    """The model's name in the word pieces' store names; as in a pipeline, so as to reuse them."""
    return "minilm" if recipe.model.start == "minilm" else "start"


def runs_of(wanted: TrainingSet) -> Sequence[str]:
    """The runs that supply a training set's negatives or pairs; none for triples."""
    drawn = wanted.negatives or wanted.pairs
    return drawn.runs if drawn is not None else ()
