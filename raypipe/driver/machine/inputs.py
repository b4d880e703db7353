"""A recipe whose inputs are in a bucket or data sets, with copies in the workspace's folder."""

from collections.abc import Mapping
from pathlib import Path

from raypipe.config import Recipe
from raypipe.config.paths import relocated
from raypipe.driver.machine.datasets import with_datasets
from raypipe.uris import in_bucket


def with_copies(
    recipe: Recipe, folder: Path, *, collection: bool = True
) -> tuple[Recipe, Mapping[str, str]]:
    """The recipe with local paths, and by path of a copy the URI that it was fetched from.

    A prefix of a bucket becomes the files directly under it. Without `collection` its files are not
    needed. Models and stores stay what they are. Queries and judgements of ir_datasets become files
    too, which are in no bucket.

    Raises:
        InputError: an input is not there, or the bucket does not give it.
    """
    recipe, made = with_datasets(recipe, folder)
    if not has_copies(recipe):
        return recipe, {}
    from raypipe.storage.copies import copied, forget_others  # only where it is needed

    copies: dict[Path, str] = {}

    def several(path: str) -> list[str]:
        if not in_bucket(path):
            return [path]
        found = copied(path, folder)
        copies.update(found)
        return [str(copy) for copy in found]

    def one(path: str) -> str:
        return several(path)[0]

    named = relocated(recipe, one, models=False)
    if collection:
        inputs = tuple(file for path in recipe.collection.input for file in several(path))
        update = {"collection": recipe.collection.model_copy(update={"input": inputs})}
        named = named.model_copy(update=update)
    forget_others(folder, [*copies, *made])
    return named, {str(copy): uri for copy, uri in copies.items()}


def has_copies(recipe: Recipe) -> bool:
    """Whether an input is in a bucket, so that it is fetched before it can be read."""
    return any(in_bucket(path) for path in _paths(recipe))


def _paths(recipe: Recipe) -> list[str]:
    found: list[str] = []

    def noted(path: str) -> str:
        found.append(path)
        return path

    relocated(recipe, noted, models=False)
    return [*found, *recipe.collection.input]
