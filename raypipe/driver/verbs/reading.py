"""Which generation of a workspace a command reads."""

from pathlib import Path

import yaml

from raypipe.driver.upkeep.status import open_workspace
from raypipe.errors import InputError
from raypipe.regular import check_regular
from raypipe.storage.generations import generation_numbers


def line_of_generations(folder: Path) -> str:
    """The name of a workspace's generations: that of the recipe that it holds.

    Raises:
        InputError: the workspace has no recipe yet, or a damaged one.
    """
    path = folder / "recipe.yaml"
    if not path.is_file():
        raise InputError(f"{path}: no such file; run `raypipe reindex` first")
    check_regular(path)
    try:
        return str(yaml.safe_load(path.read_bytes())["name"])
    except (yaml.YAMLError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: expected the recipe of the last invocation, found none with a name; run the "
            "recipe again with the same --out"
        ) from error


def generation_to_read(folder: Path, number: int | None) -> tuple[str, int | None] | None:
    """(name, number or None for the newest) of a workspace's generations; None if it has none.

    A path that is no workspace, such as a collection file, has none.

    Raises:
        InputError: a generation is asked for where there is none.
    """
    if not (folder / "recipe.yaml").is_file() or not (folder / "workspace.json").is_file():
        numbers, name = [], ""
    else:
        name = line_of_generations(folder)
        numbers = generation_numbers(open_workspace(folder).stores, name)
    if not numbers and number is not None:
        raise InputError(
            f"--generation {number}: {folder} has no generations; `raypipe reindex` makes them"
        )
    return (name, number) if numbers else None
