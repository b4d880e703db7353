"""TREC CAR's topics in a recipe, written into the workspace as ordinary files."""

import json
from collections.abc import Callable
from pathlib import Path

from raypipe.config import Recipe
from raypipe.config.pipeline.parts import CarTopics, QuerySet
from raypipe.data.formats.car.topics import (
    write_judged_topics,
    write_judgements,
    write_released,
    write_topics,
)
from raypipe.data.notes import note_in
from raypipe.driver.workspace import Workspace
from raypipe.storage.files import replace_file, sweep_beside
from raypipe.storage.records import Json, hash_file

QUERIES, QRELS, NOTE = "queries.tsv", "qrels.txt", "made-from.json"
SEMANTICS = 1
"""Increase this when other topics, texts or judgements come of the same files."""


def with_topics(recipe: Recipe, workspace: Workspace, say: Callable[[str], None]) -> Recipe:
    """The recipe itself; with TREC CAR's topics, the recipe with topics/SET/queries.tsv and
    qrels.txt in the workspace, made once from the same files.

    Raises:
        InputError: a file that is damaged, or of another kind.
    """
    queries = {
        name: queries if queries.car is None else _made(name, queries, queries.car, workspace, say)
        for name, queries in recipe.queries.items()
    }
    return recipe.model_copy(update={"queries": queries})


def _made(
    name: str, queries: QuerySet, car: CarTopics, workspace: Workspace, say: Callable[[str], None]
) -> QuerySet:
    folder = workspace.folder / "topics" / name
    for file in (QUERIES, QRELS, NOTE):
        sweep_beside(folder / file)  # they are written once: no later write sweeps there
    note = folder / NOTE
    wanted = _note(car)
    if note_in(note) != wanted:
        note.unlink(missing_ok=True)
        (folder / QRELS).unlink(missing_ok=True)
        say(f"queries {name}: {_written(car, folder)} at {car.level} level")
        replace_file(note, json.dumps(wanted).encode())
    workspace.wrote(folder)
    qrels = str(folder / QRELS) if queries.judged else None
    update = {"file": str(folder / QUERIES), "qrels": qrels, "car": None}
    return queries.model_copy(update=update)


def _written(car: CarTopics, folder: Path) -> str:
    """The counts of what was written, in words."""
    outlines, pages, qrels = ([Path(path) for path in paths] for paths in car.files().values())
    counts = []
    if pages:
        counts.append(f"{write_judgements(pages, car.level, folder / QRELS):,} judgements")
    elif qrels:
        counts.append(f"{write_released(qrels, folder / QRELS):,} judgements")
    if outlines:
        num_topics = write_topics(outlines, car.level, folder / QUERIES)
    else:
        num_topics = write_judged_topics(folder / QRELS, folder / QUERIES)
    return " and ".join([f"{num_topics:,} topics", *counts])


def _note(car: CarTopics) -> Json:
    made_from = {
        key: [hash_file(Path(path)) for path in paths] for key, paths in car.files().items()
    }
    return {"semantics": SEMANTICS, "level": car.level, **made_from}
