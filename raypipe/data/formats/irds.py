"""Collections, queries and judgements by ir_datasets id; that library downloads and reads them.

It is optional. Where a file is expected, `irds:ID` stands for the data set of that id.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from raypipe.data.formats.fields import checked_id
from raypipe.data.records import Problems
from raypipe.errors import InputError
from raypipe.uris import DATASET


def files(inputs: Sequence[Path]) -> list[Path]:
    """The ids as given; an id such as `msmarco-passage` is used in place of a file.

    Raises:
        InputError: no id, ir_datasets is not installed, or an id has no passages.
    """
    if not inputs:
        raise InputError("no input named: expected an ir_datasets id, such as msmarco-passage")
    sources = [Path(str(source).removeprefix(DATASET)) for source in inputs]
    for source in sources:
        _passages(source)
    return sources


def stream(source: Path, start: int, stop: int | None) -> Iterator[tuple[str, str]]:
    """Passages [start, stop) of the collection with that id, text by `default_text()`.

    Raises:
        InputError: see `files`; or passages with a bad id, at the end.
    """
    return dataset_passages(_passages(source), start, stop, name=str(source))


def dataset_passages(
    dataset: Any, start: int, stop: int | None, *, name: str
) -> Iterator[tuple[str, str]]:
    """Passages [start, stop) of an ir_datasets dataset, in the order of `docs_iter()`."""
    problems = Problems()
    docs = dataset.docs_iter()
    try:
        docs = docs[start:stop]  # most datasets can seek; a plain generator cannot
    except TypeError:
        docs = islice(docs, start, stop)
    for number, doc in enumerate(docs, start + 1):
        try:
            passage = checked_id(doc.doc_id), doc.default_text()
        except ValueError as error:
            problems.add(f"{name}: record {number:,}: {error}")
            continue
        yield passage
    problems.raise_if_any()


def queries(name: str) -> Iterator[tuple[str, str]]:
    """(query_id, text by `default_text()`) of the data set with that id, in its order.

    Raises:
        InputError: ir_datasets is not installed, or has no queries of this id.
    """
    dataset = _load(name)
    if not dataset.has_queries():
        raise InputError(f"irds:{name}: this ir_datasets id has no queries; name a part of it")
    for query in dataset.queries_iter():
        yield query.query_id, query.default_text()


def judgements(name: str) -> Iterator[tuple[str, str, int]]:
    """(query_id, passage_id, grade) of the data set with that id, in its order.

    Raises:
        InputError: ir_datasets is not installed, or has no judgements of this id.
    """
    dataset = _load(name)
    if not dataset.has_qrels():
        raise InputError(f"irds:{name}: this ir_datasets id has no judgements; name a part of it")
    for judged in dataset.qrels_iter():
        yield judged.query_id, judged.doc_id, judged.relevance


def _passages(source: Path) -> Any:
    dataset = _load(str(source))
    if not dataset.has_docs():
        raise InputError(f"{source}: this ir_datasets id has no passages; name its collection")
    return dataset


def _load(name: str) -> Any:
    try:
        import ir_datasets
    except ImportError:
        raise InputError(
            f"{name}: reading by ir_datasets id needs that package:"
            " pip install 'raypipe[ir-datasets]'"
        ) from None
    try:
        return ir_datasets.load(name)
    except KeyError:
        raise InputError(f"{name}: ir_datasets has no dataset of this id") from None
