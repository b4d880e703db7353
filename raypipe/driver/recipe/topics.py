"""TREC CAR's topics in a recipe, written into the workspace as ordinary files."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from raypipe.config import Recipe
from raypipe.config.pipeline.parts import CarTopics, QuerySet
from raypipe.data.car.topics import write_judgements, write_topics
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
    outlines, pages = ([Path(path) for path in paths] for paths in (car.outlines, car.pages))
    for file in (QUERIES, QRELS, NOTE):
        sweep_beside(folder / file)  # they are written once: no later write sweeps there
    note = folder / NOTE
    wanted = _note(outlines, pages, car.level)
    if note_in(note) != wanted:
        note.unlink(missing_ok=True)
        (folder / QRELS).unlink(missing_ok=True)
        counts = [f"{write_topics(outlines, car.level, folder / QUERIES):,} topics"]
        if pages:
            counts.append(f"{write_judgements(pages, car.level, folder / QRELS):,} judgements")
        replace_file(note, json.dumps(wanted).encode())
        say(f"queries {name}: {' and '.join(counts)} at {car.level} level")
    workspace.wrote(folder)
    qrels = str(folder / QRELS) if pages else queries.qrels
    update = {"file": str(folder / QUERIES), "qrels": qrels, "car": None}
    return queries.model_copy(update=update)


def _note(outlines: Sequence[Path], pages: Sequence[Path], level: str) -> Json:
    return {
        "semantics": SEMANTICS,
        "level": level,
        "outlines": [hash_file(path) for path in outlines],
        "pages": [hash_file(path) for path in pages],
    }
