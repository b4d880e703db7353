"""A recipe with local files: copies from buckets, data sets' files, python-docs, CAR topics."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from raypipe.config.parts import CarTopics, QuerySet
from raypipe.config.paths import places_of, relocated
from raypipe.config.recipe import Recipe
from raypipe.data.files import ASIDE
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, RefusedError
from raypipe.storage.files import (
    folder_beside,
    note_in,
    remove,
    replace_file,
    replace_folder,
    sweep_beside,
)
from raypipe.storage.records import Json, digest, hash_file
from raypipe.uris import dataset_id, in_bucket


def with_local_files(
    recipe: Recipe,
    workspace: Workspace,
    say: Callable[[str], None] = lambda line: None,
    *,
    collection: bool = True,
    frozen: bool = False,
    on_making: Callable[[], None] = lambda: None,
) -> tuple[Recipe, Mapping[str, str]]:
    """The recipe whose inputs are all files of this machine, and by path of a copy its URI.

    Fetched and made files are kept in the workspace's folder, and made again only if their sources
    changed. `with_files`, `with_copies` and `with_topics` do it, and list the errors.
    """
    made = workspace.folder / "python-docs"

    def on_making_docs() -> None:
        if made.exists():
            workspace.work_begins()
        on_making()

    named = with_files(recipe, made, on_making=on_making_docs)
    if named is not recipe:
        workspace.wrote(made)
    named, sources = with_copies(named, workspace.folder / "inputs", collection=collection)
    return with_topics(named, workspace, say, frozen=frozen), sources


def with_copies(
    recipe: Recipe, folder: Path, *, collection: bool = True
) -> tuple[Recipe, Mapping[str, str]]:
    """The recipe with local paths, and by path of a copy the URI that it was fetched from.

    A prefix of a bucket becomes the files directly under it, as a folder of passages does; one with
    others below is refused, and so is one in the place of a single file. Without `collection` its
    files are not needed. Models and stores stay what they are. Queries and judgements of
    ir_datasets become files too, which are in no bucket.

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
        paths = copied(path, folder, ASIDE.match)
        copies.update(paths)
        return [str(copy) for copy in paths]

    def one(path: str) -> str:
        first, *others = several(path)
        if others:
            raise InputError(
                f"{path}: expected one object, found {1 + len(others):,} under a prefix; name one"
            )
        return first

    named = relocated(recipe, one, without=_KEPT)
    if collection:
        inputs = tuple(file for path in recipe.collection.input for file in several(path))
        update = {"collection": recipe.collection.model_copy(update={"input": inputs})}
        named = named.model_copy(update=update)
    forget_others(folder, [*copies, *made])
    return named, {str(copy): uri for copy, uri in copies.items()}


def has_copies(recipe: Recipe) -> bool:
    """Whether an input is in a bucket, so that it is fetched before it can be read."""
    return any(map(in_bucket, places_of(recipe, without=("models", "stores")).values()))


_KEPT = ("collection", "models", "stores")
"""Parts whose places are no single files."""


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
        replace_file(file, content)
        written.add(file)
        return str(file)

    sets = {
        key: queries.model_copy(
            update={
                "file": located(queries.file, _queries, "queries.jsonl"),
                "qrels": located(queries.qrels, _qrels, "qrels.txt"),
                "document_qrels": located(queries.document_qrels, _qrels, "qrels.txt"),
                "exclude": located(queries.exclude, _qrels, "qrels.txt"),
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


PASSAGES = "passages.tsv"
DOCS_SEMANTICS = 2
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
    maker = _made_by(recipe)
    note = folder / "made-by.json"
    if note_in(note) != maker:
        from raypipe.data.python_docs.build import python_docs, write_python_docs

        on_making()
        packages = [Path(folder) for folder in recipe.collection.input]
        docs = python_docs(max_passages=recipe.collection.max_passages, packages=packages)
        with folder_beside(folder) as made:
            write_python_docs(made, docs)
            # Not MS MARCO's file name: MS MARCO's official count and hash do not apply to this
            # collection.
            (made / "collection.tsv").rename(made / PASSAGES)
            (made / note.name).write_bytes(json.dumps(maker).encode())
            replace_folder(made, folder)
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
        "semantics": DOCS_SEMANTICS,
        "max_passages": recipe.collection.max_passages,
    }


QUERIES, QRELS, NOTE = "queries.tsv", "qrels.txt", "made-from.json"
TOPICS_SEMANTICS = 1
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
        keys = ", ".join(changes)
        raise RefusedError(
            f"--frozen: {keys}; set that back, or run once without --frozen to take the change"
        )
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
    sources = _note(car)
    if note_in(note) != {**sources, "made": _hashes(folder)}:
        if folder.exists():
            workspace.work_begins()
        remove(note)
        remove(folder / QRELS)
        say(f"queries {name}: {_written(car, folder)} at {car.level} level")
        replace_file(note, json.dumps({**sources, "made": _hashes(folder)}).encode())
    workspace.wrote(folder)
    qrels = str(folder / QRELS) if queries.judged else None
    update = {"file": str(folder / QUERIES), "qrels": qrels, "car": None}
    return queries.model_copy(update=update)


def _written(car: CarTopics, folder: Path) -> str:
    """The counts of what was written, in words."""
    from raypipe.data.formats.car_topics import (
        write_judged_topics,
        write_judgements,
        write_released,
        write_topics,
    )

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
    return {"semantics": TOPICS_SEMANTICS, "level": car.level, **made_from}


def _hashes(folder: Path) -> Json:
    """The SHA-256 of each file, so that one that was edited or deleted since is made again."""
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
