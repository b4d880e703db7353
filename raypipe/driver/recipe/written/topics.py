"""TREC CAR's topics in a recipe, written into the workspace as ordinary files."""

import json
from collections.abc import Callable
from pathlib import Path

from raypipe.config import Recipe
from raypipe.config.parts import CarTopics, QuerySet
from raypipe.data.formats.car_topics import (
    write_judged_topics,
    write_judgements,
    write_released,
    write_topics,
)
from raypipe.driver.workspace import Workspace
from raypipe.errors import RefusedError
from raypipe.storage.files import note_in, replace_file, sweep_beside
from raypipe.storage.records import Json, hash_file

QUERIES, QRELS, NOTE = "queries.tsv", "qrels.txt", "made-from.json"
SEMANTICS = 1
"""Increase this when other topics, texts or judgements come of the same files."""


def with_topics(
    recipe: Recipe, workspace: Workspace, say: Callable[[str], None], *, frozen: bool = False
) -> Recipe:
    """The recipe itself; with TREC CAR's topics, the recipe with topics/SET/queries.tsv and
    qrels.txt in the workspace, made once from the same files, and again if they were changed.

    Raises:
        InputError: a file that is damaged, or of another kind.
        RefusedError: `frozen`, and topics were made at another level or of other kinds of files;
            nothing is written.
    """
    if frozen and (changes := _changes(recipe, workspace)):
        raise RefusedError("--frozen: " + "\n".join(changes))
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
    if note_in(note) != {**wanted, "made": _hashes(folder)}:
        note.unlink(missing_ok=True)
        (folder / QRELS).unlink(missing_ok=True)
        say(f"queries {name}: {_written(car, folder)} at {car.level} level")
        replace_file(note, json.dumps({**wanted, "made": _hashes(folder)}).encode())
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


def _note(car: CarTopics) -> dict[str, Json]:
    made_from: dict[str, Json] = {
        key: [hash_file(Path(path)) for path in paths] for key, paths in car.files().items()
    }
    return {"semantics": SEMANTICS, "level": car.level, **made_from}


def _hashes(folder: Path) -> Json:
    """What was written, so that a file that was edited or deleted since is made again."""
    return {name: hash_file(folder / name) for name in (QUERIES, QRELS) if (folder / name).exists()}


def _changes(recipe: Recipe, workspace: Workspace) -> list[str]:
    """Settings of topics that differ from those of which the workspace's were made; not content."""
    lines = []
    for name, car in ((name, queries.car) for name, queries in recipe.queries.items()):
        before = note_in(workspace.folder / "topics" / name / NOTE)
        if car is None or not isinstance(before, dict):
            continue
        settings: dict[str, tuple[object, object]] = {"level": (before.get("level"), car.level)}
        for key, paths in car.files().items():
            old, new = ("given" if each else "none" for each in (before.get(key), paths))
            settings[key] = (old, new)
        lines += [
            f"queries.{name}.car.{key}: {was} -> {now}"
            for key, (was, now) in settings.items()
            if was != now
        ]
    return lines
