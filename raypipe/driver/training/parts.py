"""Pipeline recipes of a training's collections, query sets and runs, from which parts are taken."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raypipe.config import Recipe, Training, load_recipe
from raypipe.config.training.documents import TrainDocuments
from raypipe.config.training.sets import TrainingSet
from raypipe.driver.training.relevant import relevant_file
from raypipe.driver.training.teachers import teacher_of

ALL = 10**9
"""More documents or passages than a query has."""


def parts_recipe(
    recipe: Training, name: str, *, scorers: Mapping[str, Path] = {}, relevant: Path = Path()
) -> Recipe:
    """A recipe with a collection, its query sets and their runs, from which parts are taken.

    Args:
        recipe: the training.
        name: the collection.
        scorers: the models of earlier phases, which may score passages of relevant documents.
        relevant: the folder with the runs of relevant documents; see `write_relevant`.
    """
    models: dict[str, Any] = {model_name(recipe): {"path": recipe.model.start}}
    queries: dict[str, Any] = {}
    stages: dict[str, Any] = {}
    for group, wanted in recipe.train.items():
        if wanted.collection == name and wanted.queries is not None:
            query_set = f"train-{group}"
            queries[query_set] = {"file": wanted.queries}
            if wanted.qrels is not None and wanted.triples is None:
                judged = {_judged(wanted.documents): wanted.qrels, "only_judged": True}
                queries[query_set] |= judged
            for number, path in enumerate(runs_of(wanted)):
                read = {"do": "read", "runs": {query_set: path}, **_unit(wanted.documents)}
                stages[f"{query_set}-run-{number}"] = read
            if wanted.documents is not None and wanted.documents.scored_by is not None:
                scorer = wanted.documents.scored_by
                models[scored_with(scorer)] = {"path": str(scorers[scorer])}
                file = str(relevant_file(relevant, group))
                stages |= _best_stages(query_set, file, wanted.documents)
            if wanted.teacher is not None:
                stages[f"{query_set}-teacher"] = {
                    "do": "read",
                    "runs": {query_set: teacher_of(wanted.teacher)[0]},
                }
    for group, dev in recipe.dev.items():
        if dev.collection == name:
            query_set = f"dev-{group}"
            judged = {_judged(dev.documents): dev.qrels, "only_judged": True}
            queries[query_set] = {"file": dev.queries, **judged}
            read = {"do": "read", "runs": {query_set: dev.run}, **_unit(dev.documents)}
            stages[f"{query_set}-run"] = read
            if dev.documents is not None:
                passages = {"do": "passages", "run": f"{query_set}-run", "documents": dev.k}
                stages[f"{query_set}-passages"] = passages
    body = {
        "format": 1,
        "name": recipe.name,
        "collection": recipe.collections[name].model_dump(mode="json", exclude_none=True),
        "queries": queries,
        "models": models,
        "stages": stages,
    }
    return load_recipe(body, source=recipe.name)


def _unit(documents: object | None) -> dict[str, str]:
    """What a run file ranks; nothing is said of passages, as always."""
    return {} if documents is None else {"of": "documents"}


def _judged(documents: object | None) -> str:
    """The key of the judgements in a pipeline recipe."""
    return "qrels" if documents is None else "document_qrels"


def _best_stages(query_set: str, file: str, wanted: TrainDocuments) -> dict[str, Any]:
    """The stages that score the passages of the relevant documents in a run file."""
    relevant, passages = f"{query_set}-relevant", f"{query_set}-passages"
    assert wanted.scored_by is not None
    return {
        relevant: {"do": "read", "runs": {query_set: file}, "of": "documents"},
        passages: {
            "do": "passages",
            "run": relevant,
            "documents": ALL,
            "at_most": wanted.passages,
        },
        f"{query_set}-scored": {
            "do": "score",
            "run": passages,
            "model": scored_with(wanted.scored_by),
            "k0": ALL,
        },
    }


def scored_with(phase: str) -> str:
    """The name of an earlier phase's model, which is in the names of its scores' stores."""
    return f"of-{phase}"


def model_name(recipe: Training) -> str:
    """The model's name in the word pieces' store names; as in a pipeline, so as to reuse them."""
    return "minilm" if recipe.model.start == "minilm" else "start"


def runs_of(wanted: TrainingSet) -> Sequence[str]:
    """The runs that supply a training set's negatives or pairs; none for triples."""
    drawn = wanted.negatives or wanted.pairs
    return drawn.runs if drawn is not None else ()
