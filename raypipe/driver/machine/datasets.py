"""A recipe whose queries or judgements are named by an ir_datasets id, with files of them."""

import json
from collections.abc import Callable
from pathlib import Path

from raypipe.config import Recipe
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.storage.files import make_folder, replace_file
from raypipe.storage.records import digest
from raypipe.uris import dataset_id


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
