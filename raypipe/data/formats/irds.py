"""Collections by ir_datasets id. The optional library downloads and reads them itself."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from raypipe.data.files.problems import Problems
from raypipe.data.formats.fields import checked_id
from raypipe.errors import InputError


def files(inputs: Sequence[Path]) -> list[Path]:
    """The ids as given; an id such as `msmarco-passage` is used in place of a file.

    Raises:
        InputError: no id, ir_datasets is not installed, or an id has no passages.
    """
    if not inputs:
        raise InputError("no input named: expected an ir_datasets id, such as msmarco-passage")
    for source in inputs:
        _load(source)
    return list(inputs)


def stream(source: Path, start: int, stop: int | None) -> Iterator[tuple[str, str]]:
    """Passages [start, stop) of the collection with that id, text by `default_text()`.

    Raises:
        InputError: see `files`; or passages with a bad id, at the end.
    """
    return dataset_passages(_load(source), start, stop, name=str(source))


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


def _load(source: Path) -> Any:
    try:
        import ir_datasets
    except ImportError:
        raise InputError(
            f"{source}: reading by ir_datasets id needs that package:"
            " pip install 'raypipe[ir-datasets]'"
        ) from None
    try:
        dataset = ir_datasets.load(str(source))
    except KeyError:
        raise InputError(f"{source}: ir_datasets has no dataset of this id") from None
    if not dataset.has_docs():
        raise InputError(f"{source}: this ir_datasets id has no passages; name its collection")
    return dataset
