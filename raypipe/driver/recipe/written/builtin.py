"""The builtin collection python-docs, written into the workspace as ordinary files."""

import json
from collections.abc import Callable
from pathlib import Path

from raypipe.config import Recipe
from raypipe.data.python_docs.build import python_docs, write_python_docs
from raypipe.errors import InputError
from raypipe.storage.files import note_in, replace_file, sync

PASSAGES = "passages.tsv"
SEMANTICS = 1
"""Increase this when the generator's output changes for the same Python version."""


def with_files(
    recipe: Recipe, folder: Path, *, on_making: Callable[[], None] = lambda: None
) -> Recipe:
    """The recipe itself; for python-docs, the recipe with the files that were made in `folder`.

    Existing files are replaced only if another Python, size or generator made them. Before that,
    `on_making` is called: it takes seconds of one core, in which others can begin.
    """
    if recipe.collection.format != "python-docs":
        return recipe
    wanted = _made_by(recipe)
    note = folder / "made-by.json"
    if note_in(note) != wanted:
        on_making()
        note.unlink(missing_ok=True)
        packages = [Path(folder) for folder in recipe.collection.input]
        docs = python_docs(max_passages=recipe.collection.max_passages, packages=packages)
        write_python_docs(folder, docs)
        # Not MS MARCO's file name: MS MARCO's official count and hash do not apply to this
        # collection.
        (folder / "collection.tsv").rename(folder / PASSAGES)
        for path in folder.iterdir():
            sync(path)  # the note says that all of it is there
        replace_file(note, json.dumps(wanted).encode())
    collection = recipe.collection.model_copy(
        update={"format": "msmarco-v1", "input": (str(folder / PASSAGES),)}
    )
    queries = {
        name: q.model_copy(
            update={
                "file": str(folder / f"queries.{q.builtin}.tsv"),
                "qrels": str(folder / f"qrels.{q.builtin}.txt"),
            }
        )
        if q.builtin
        else q
        for name, q in recipe.queries.items()
    }
    return recipe.model_copy(update={"collection": collection, "queries": queries})


def _made_by(recipe: Recipe) -> dict[str, object]:
    import platform

    python = f"{platform.python_implementation()} {platform.python_version()}"
    folders = [Path(folder) for folder in recipe.collection.input]
    files = [str(folder) for folder in folders if not folder.is_dir()]
    if files:
        raise InputError([f"{f}: expected a folder with installed packages" for f in files])
    packages = {str(folder): sorted(path.name for path in folder.iterdir()) for folder in folders}
    return {
        "packages": packages,
        "python": python,
        "semantics": SEMANTICS,
        "max_passages": recipe.collection.max_passages,
    }
