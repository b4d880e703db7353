"""The builtin collection `python-docs`, made from the interpreter's own documentation.

Paragraphs of docstrings and of the language reference are passages. Queries and qrels are made as
in TREC CAR: the names of module and object, in words, are title and heading; the paragraphs of that
docstring are relevant. The bytes are the same for one Python version from one distributor.
"""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raypipe.data.python_docs.draft import Draft, drafted, drafted_packages
from raypipe.data.python_docs.split import PACKAGE_SHARES, SHARES, choose_sections
from raypipe.errors import InputError

STANDARD_PASSAGES = 6000
"""Encoding them with MiniLM takes about a minute on two cores."""
SMALLEST_PASSAGES = 100
Facts = dict[str, int | dict[str, int]]


@dataclass(frozen=True, kw_only=True)
class PythonDocs:
    """A collection with three query sets; every split searches the whole collection."""

    version: str
    """What determines the bytes, such as `CPython 3.11.7`."""
    passages: list[tuple[str, str]]
    """(passage_id, text), by module, then in the order of the source."""
    queries: dict[str, list[tuple[str, str]]]
    """Split -> (query_id, text), in the order of the passages."""
    qrels: dict[str, list[tuple[str, str, int]]]
    """Split -> (query_id, passage_id, relevance 1), in the order of queries, then passages."""
    facts: Facts


def python_docs(*, max_passages: int | None = None, packages: Sequence[Path] = ()) -> PythonDocs:
    """The collection with train, dev and test queries, split by top-level module.

    Every query has a relevant passage and does not occur in one. No two passages and no two queries
    of different splits share 60% of their words. This takes a few seconds.

    Args:
        max_passages: largest number of passages; None means the standard 6,000. Whole sections are
            chosen, and each split keeps its share.
        packages: folders with installed packages, whose documentation is used instead, except texts
            that Python's own documentation also has. Nearly all of it is `train`. This takes
            minutes.

    Raises:
        InputError: fewer than 100 passages requested, a Python without its library's source, or a
            folder without packages.
    """
    bound = STANDARD_PASSAGES if max_passages is None else max_passages
    if bound < SMALLEST_PASSAGES:
        raise InputError(
            f"max_passages: expected at least {SMALLEST_PASSAGES}, found {bound}: fewer leave a"
            " split without queries"
        )
    if packages:
        return sized(drafted_packages(packages), max_passages=bound, shares=PACKAGE_SHARES)
    return sized(drafted(), max_passages=bound)


def sized(draft: Draft, *, max_passages: int, shares: Mapping[str, float] = SHARES) -> PythonDocs:
    """The collection of at most `max_passages` passages from a draft; the bound is not checked."""
    chosen = choose_sections(
        draft.relevant, splits=draft.splits, max_passages=max_passages, shares=shares
    )
    held = {key for name in chosen for key in draft.relevant[name]}
    passages = [(key, text) for key, text in draft.passages.items() if key in held]
    queries: dict[str, list[tuple[str, str]]] = {split: [] for split in SHARES}
    qrels: dict[str, list[tuple[str, str, int]]] = {split: [] for split in SHARES}
    for name, text in draft.queries.items():
        if name in chosen:
            queries[draft.splits[name]].append((name, text))
            qrels[draft.splits[name]] += [(name, key, 1) for key in draft.relevant[name]]
    return PythonDocs(
        version=f"{platform.python_implementation()} {platform.python_version()}",
        passages=passages,
        queries=queries,
        qrels=qrels,
        facts={
            **draft.facts,
            "sections_chosen": len(chosen),
            "passages": len(passages),
            "queries": {split: len(rows) for split, rows in queries.items()},
            "qrels": {split: len(rows) for split, rows in qrels.items()},
        },
    )


def write_python_docs(folder: Path, docs: PythonDocs) -> None:
    """Write the collection in the MS MARCO layout, UTF-8, the same bytes for the same docs.

    `collection.tsv` (id TAB text), and for each split `queries.SPLIT.tsv` (id TAB text) and
    `qrels.SPLIT.txt` (TREC: query_id 0 passage_id relevance). The folder is created if missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_lines(folder / "collection.tsv", [f"{key}\t{text}" for key, text in docs.passages])
    for split, queries in docs.queries.items():
        _write_lines(folder / f"queries.{split}.tsv", [f"{key}\t{text}" for key, text in queries])
        rows = [f"{query} 0 {passage} {grade}" for query, passage, grade in docs.qrels[split]]
        _write_lines(folder / f"qrels.{split}.txt", rows)


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
