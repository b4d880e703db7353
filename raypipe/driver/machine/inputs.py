"""A recipe whose inputs are in a bucket or data sets, with copies in the workspace's folder."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from raypipe.config import Recipe
from raypipe.config.paths import relocated
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.storage.files import make_folder, replace_file
from raypipe.storage.records import digest
from raypipe.uris import dataset_id, in_bucket


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


def with_datasets(recipe: Recipe, folder: Path) -> tuple[Recipe, set[Path]]:
    """The recipe with files in `folder` in the place of `irds:ID`, and these files.

    A file is written again only if its content differs.

    Raises:
        InputError: ir_datasets is not installed, or has no queries or judgements of such an id.
    """
    written: set[Path] = set()

    def located(place: str | None, write: Callable[[Path], bytes], name: str) -> str | None:
        if place is None or dataset_id(place) is None:
            return place
        file = folder / digest(f"{name} {place}".encode())[:32] / name
        content = write(Path(place))
        if not file.exists() or file.read_bytes() != content:
            make_folder(file.parent)
            replace_file(file, content)
        written.add(file)
        return str(file)

    sets = {
        key: queries.model_copy(
            update={
                "file": located(queries.file, _queries, "queries.jsonl"),
                "qrels": located(queries.qrels, _qrels, "qrels.txt"),
                "document_qrels": located(queries.document_qrels, _qrels, "qrels.txt"),
            }
        )
        for key, queries in recipe.queries.items()
    }
    return (recipe.model_copy(update={"queries": sets}) if written else recipe), written


def _queries(place: Path) -> bytes:
    lines = [json.dumps({"_id": name, "text": text}) + "\n" for name, text in read_queries(place)]
    return "".join(lines).encode()


def _qrels(place: Path) -> bytes:
    rows = read_qrels(place).to_pylist()
    lines = [f"{row['query_id']} 0 {row['passage_id']} {row['relevance']}\n" for row in rows]
    return "".join(lines).encode()
