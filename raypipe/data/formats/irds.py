"""Collections, queries and judgements by ir_datasets id; that library downloads and reads them.

It is optional. Where a file is expected, `irds:ID` stands for the data set of that id.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from raypipe.data.formats.fields import checked_id, joined
from raypipe.data.records import Problems
from raypipe.errors import InputError, shown
from raypipe.uris import DATASET

LONGEVAL = "longeval-"
"""The ids of LongEval's snapshots begin with it."""


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


def stream(
    source: Path, start: int, stop: int | None, fields: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """Passages [start, stop) of the collection with that id, text by `default_text()` or `fields`.

    Raises:
        InputError: see `files`; or passages with a bad id, at the end.
    """
    return dataset_passages(_passages(source), start, stop, name=str(source), fields=fields)


def dataset_passages(
    dataset: Any,
    start: int,
    stop: int | None,
    *,
    name: str,
    fields: Mapping[str, str] | None = None,
) -> Iterator[tuple[str, str]]:
    """Passages [start, stop) of an ir_datasets dataset, in the order of `docs_iter()`.

    A text is `default_text()`, or the fields that a recipe names for title, headings and body.
    """
    problems = Problems()
    docs = dataset.docs_iter()
    try:
        docs = docs[start:stop]  # most datasets can seek; a plain generator cannot
    except TypeError:
        docs = islice(docs, start, stop)
    for number, doc in enumerate(docs, start + 1):
        try:
            passage = checked_id(_field(doc, fields, "id")), _text(doc, fields)
        except ValueError as error:
            problems.add(f"{name}: record {number:,}: {error}")
            continue
        yield passage
    problems.raise_if_any()


def _text(doc: Any, fields: Mapping[str, str] | None) -> str:
    if fields is None:
        return str(doc.default_text())
    parts = [part for part in ("title", "headings", "body") if part in fields]
    return joined(*(_field(doc, fields, part) for part in parts))


def _field(doc: Any, fields: Mapping[str, str] | None, part: str) -> str:
    """The text of a field; None stands for an empty one.

    Raises:
        ValueError: no such field, or no text.
    """
    name = "doc_id" if fields is None else fields[part]
    if not hasattr(doc, name):
        there = ", ".join(getattr(doc, "_fields", ()))
        raise ValueError(f"expected a field {name}, found {there}")
    value = getattr(doc, name)
    if not isinstance(value, str | None):
        raise ValueError(f"expected a text in {name}, found {shown(value)}")
    return value or ""


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
        return _load_longeval(name) if name.startswith(LONGEVAL) else ir_datasets.load(name)
    except KeyError:
        raise InputError(f"{name}: ir_datasets has no dataset of this id") from None


def _load_longeval(name: str) -> Any:
    """The data set by its own package, which registers it with ir_datasets and fetches it.

    Raises:
        InputError: that package is not installed, or cannot fetch the data set.
        KeyError: it has no data set of this id.
    """
    try:
        import ir_datasets_longeval
    except ImportError:
        raise InputError(
            f"{name}: LongEval's ids need a package that adds them to ir_datasets:"
            " pip install 'raypipe[longeval]'"
        ) from None
    try:
        return ir_datasets_longeval.load(name)
    except ValueError as error:
        raise KeyError(name) from error
    except OSError as error:
        raise InputError(
            f"{name}: ir_datasets_longeval could not fetch it ({type(error).__name__}); fetch it "
            "where there is a network, or name its files in the recipe"
        ) from error
