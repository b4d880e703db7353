"""The builtin collection `python-docs`, made from the interpreter's own documentation.

Paragraphs of docstrings and of the language reference (`pydoc_data.topics`) are passages. Queries
and qrels are made as in TREC CAR: the names of module and object, in words, are title and heading;
the paragraphs of that docstring are relevant. Modules are split into train, dev and test; a smaller
collection keeps whole sections. The bytes are the same for one Python version from one distributor.
"""

import hashlib
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raypipe.data.python_docs.source import (
    DocSection,
    builtin_sections,
    docstring_sections,
    package_sections,
    stdlib_folder,
    topics,
)
from raypipe.data.python_docs.text import name_words, near_duplicates, paragraphs, words
from raypipe.errors import InputError

UNIT = "topics"
"""The topics repeat each other, so they are treated as one module."""
_UNDERLINE = re.compile(r"([*=\-~^])\1{2,}$")
_DEFINITION = re.compile(r"(?:class |classmethod |static |async )*([A-Za-z_][\w.]*)\([^()]*\)")
_WORD = re.compile(r"\w+")


def topic_sections(texts: dict[str, str]) -> Iterator[DocSection]:
    """Sections by topic, then position; parts of one topic with one heading are joined."""
    for topic in sorted(texts):
        lines = texts[topic].splitlines()
        title = lines[0] if lines else topic
        sections: dict[str, list[str]] = {}
        for heading, line in _headed_lines(lines):
            sections.setdefault("" if heading == title else heading, []).append(line)
        for heading, body in sections.items():
            slug = "-".join([topic, *_WORD.findall(heading.lower())])
            text = "\n".join(body)
            yield DocSection(name=f"{UNIT}.{slug}", title=title, heading=heading, text=text)


def _headed_lines(lines: list[str]) -> Iterator[tuple[str, str]]:
    """(heading, line) of every line that is not itself a heading.

    A definition (`str.center(width)` on a line without indent) is the heading of the indented lines
    below it; of several definitions above one text, the first is.
    """
    heading = definition = ""
    stacked = False
    for line, following in zip(lines, [*lines, ""][1:], strict=True):
        if _UNDERLINE.match(line):
            continue
        if _UNDERLINE.match(following) and line.strip():
            heading, definition, stacked = line, "", False
            continue
        if line and not line[0].isspace():
            name = _defined_name(line)
            definition = definition if name and stacked else name
            stacked = bool(name)
        elif line:
            stacked = False
        yield definition or heading, line


def _defined_name(line: str) -> str:
    match = _DEFINITION.fullmatch(line.rstrip())
    return match[1] if match else ""


SHARES = {"train": 0.62, "dev": 0.15, "test": 0.23}
"""Share of the queries in each split."""
PACKAGE_SHARES = {"train": 0.94, "dev": 0.03, "test": 0.03}
"""The shares for installed packages' documentation, which is meant for training."""
PRIORITY = tuple(SHARES)
"""Order of the splits: of two near-duplicates, the one in the earlier split is removed, so that
test keeps its texts."""
_UNITS = {"genericpath": "os", "ntpath": "os", "posixpath": "os", "sre_compile": "re"}
_UNITS |= {"sre_constants": "re", "sre_parse": "re", "html": "xml", "asynchat": "asyncore"}
"""Modules that document the subject of another module and stay with it."""


def unit_of(module: str) -> str:
    """The unit of modules that stay together, from the name of one of them."""
    return _UNITS.get(module, module)


def split_units(sizes: Mapping[str, int], shares: Mapping[str, float] = SHARES) -> dict[str, str]:
    """Unit -> split; the largest first, each into the split whose share is then filled least.

    Ties in size are ordered by name, ties between splits by the order of the shares.
    """
    filled = dict.fromkeys(shares, 0)
    splits: dict[str, str] = {}
    for unit, size in sorted(sizes.items(), key=lambda each: (-each[1], each[0])):
        split = min(shares, key=lambda name: (filled[name] + size) / shares[name])
        filled[split] += size
        splits[unit] = split
    return splits


def choose_sections(
    passages: Mapping[str, list[str]],
    *,
    splits: Mapping[str, str],
    max_passages: int,
    shares: Mapping[str, float] = SHARES,
) -> set[str]:
    """Names of whole sections with at most `max_passages` different passages in all.

    Each split gets its share of the passages. Sections come in the order of the SHA-256 of their
    names, so a larger collection holds most of a smaller one; one that no longer fits is skipped.

    Args:
        passages: section -> ids of its passages.
        splits: section -> split.
        max_passages: bound on the number of different passages.
        shares: the share of each split.
    """
    left = {split: int(max_passages * share) for split, share in shares.items()}
    chosen: set[str] = set()
    passage_ids: set[str] = set()
    for name in sorted(passages, key=_stable_hash):
        fresh = set(passages[name]) - passage_ids
        if len(fresh) <= left[splits[name]]:
            left[splits[name]] -= len(fresh)
            passage_ids |= fresh
            chosen.add(name)
    return chosen


def _stable_hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


NEAR_DUPLICATE = 0.6
"""Two texts whose sets of words have at least this Jaccard coefficient may not be in two splits."""


@dataclass(frozen=True, kw_only=True)
class DocsDraft:
    """Everything that could be in the collection; sections by name, in reading order."""

    passages: dict[str, str]
    """passage_id -> text, every text once, in reading order."""
    relevant: dict[str, list[str]]
    """Section -> ids of its passages, at least one, of the section's own split."""
    queries: dict[str, str]
    """Section -> query text."""
    splits: dict[str, str]
    """Section -> split."""
    facts: dict[str, int]


def drafted() -> DocsDraft:
    """The draft from Python's own documentation, without near-duplicates across splits.

    Raises:
        InputError: a Python without its library's source.
    """
    return _drafted(_own_sections(), SHARES, frozenset())


def drafted_packages(folders: Sequence[Path]) -> DocsDraft:
    """The draft from installed packages; leaves out texts and queries of Python's documentation.

    Raises:
        InputError: no package in the folders, or a Python without its library's source.
    """
    own = drafted()
    known = frozenset(own.passages.values()) | frozenset(own.queries.values())
    return _drafted(package_sections(folders), PACKAGE_SHARES, known)


def _drafted(
    sections_of: Iterable[DocSection], shares: Mapping[str, float], known: frozenset[str]
) -> DocsDraft:
    sections = _named(sections_of)
    every = {name: paragraphs(section.text) for name, section in sections.items()}
    section_texts = {name: [t for t in texts if t not in known] for name, texts in every.items()}
    section_texts = {name: texts for name, texts in section_texts.items() if texts}
    queries = _queries({name: sections[name] for name in section_texts}, section_texts)
    queries = {name: text for name, text in queries.items() if text not in known}
    splits = _splits(section_texts, queries, shares)
    passages, relevant = _identified(section_texts, splits)
    owners = {key: splits[name] for name, keys in relevant.items() for key in keys}
    doubles = _doubles(passages, owners)
    double_queries = _doubles(queries, splits)
    kept = {
        name: [key for key in keys if key not in doubles]
        for name, keys in relevant.items()
        if not doubles.issuperset(keys)
    }
    distinct_queries = {
        name: text for name, text in queries.items() if name in kept and name not in double_queries
    }
    return DocsDraft(
        passages={key: text for key, text in passages.items() if key not in doubles},
        relevant=kept,
        queries=distinct_queries,
        splits=splits,
        facts={
            "sections": len(sections),
            "near_duplicate_passages_dropped": len(doubles),
            "near_duplicate_queries_dropped": len(double_queries),
        },
    )


def _own_sections() -> Iterator[DocSection]:
    folder = stdlib_folder()
    yield from docstring_sections(folder)
    yield from builtin_sections()
    yield from topic_sections(topics(folder))


def _named(doc_sections: Iterable[DocSection]) -> dict[str, DocSection]:
    """Sections by name, in reading order; the first of several with one name."""
    sections: dict[str, DocSection] = {}
    for section in doc_sections:
        sections.setdefault(section.name, section)
    return dict(sorted(sections.items(), key=lambda each: each[1].module))


def _queries(
    sections: dict[str, DocSection], section_texts: dict[str, list[str]]
) -> dict[str, str]:
    """Section -> title and heading in words, if not a single word, a repetition or in the text."""
    queries: dict[str, str] = {}
    word_sets: set[frozenset[str]] = set()
    for name, section in sections.items():
        query = name_words(f"{section.title}.{section.heading}")
        key = frozenset(query.split())
        if len(key) > 1 and key not in word_sets:
            if not any(_contains(text, query) for text in section_texts[name]):
                word_sets.add(key)
                queries[name] = query
    return queries


def _contains(text: str, query: str) -> bool:
    return f" {query} " in f" {' '.join(words(text))} " or query in text.lower()


def _splits(
    section_texts: dict[str, list[str]], queries: dict[str, str], shares: Mapping[str, float]
) -> dict[str, str]:
    """Section -> split, by module."""
    units = {name: unit_of(name.partition(".")[0]) for name in section_texts}
    sizes = dict.fromkeys(units.values(), 0)
    for name in queries:
        sizes[units[name]] += 1
    splits = split_units(sizes, shares)
    return {name: splits[unit] for name, unit in units.items()}


def _identified(
    section_texts: dict[str, list[str]], splits: dict[str, str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """(passage_id -> text, section -> passage ids), every text once.

    A text of several sections gets the first one's id and is relevant for all of them in that
    split. If several splits share it, only the highest split has it.
    """
    ids: dict[str, tuple[str, str]] = {}
    for split in reversed(PRIORITY):
        for name, texts in section_texts.items():
            for number, text in enumerate(texts, start=1):
                if splits[name] == split:
                    ids.setdefault(text, (split, f"{name}#{number}"))
    relevant = {
        name: list(dict.fromkeys(ids[text][1] for text in texts if ids[text][0] == splits[name]))
        for name, texts in section_texts.items()
    }
    keys = {text: key for text, (_, key) in ids.items()}
    passages = {keys[text]: text for texts in section_texts.values() for text in texts}
    return passages, {name: passage_ids for name, passage_ids in relevant.items() if passage_ids}


def _doubles(texts: dict[str, str], splits: dict[str, str]) -> set[str]:
    """Keys of texts with a near-duplicate in a split of higher priority."""
    keys = list(texts)
    ranks = [PRIORITY.index(splits[key]) for key in keys]
    pairs = near_duplicates(list(texts.values()), groups=ranks, threshold=NEAR_DUPLICATE)
    return {keys[min(pair, key=lambda index: ranks[index])] for pair in pairs}


STANDARD_PASSAGES = 6000
"""Encoding them with MiniLM takes about a minute on two cores."""
SMALLEST_PASSAGES = 100
NUM_DRAWN = 400
"""Test queries that the quickstart ranks, so that it ends in a minute and a half on two cores."""
Facts = dict[str, int | dict[str, int]]


@dataclass(frozen=True, kw_only=True)
class PythonDocs:
    """A collection with three query sets; every split searches the whole collection."""

    version: str
    """Interpreter that determines the bytes, such as `CPython 3.11.7`."""
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


def sized(
    draft: DocsDraft, *, max_passages: int, shares: Mapping[str, float] = SHARES
) -> PythonDocs:
    """The collection of at most `max_passages` passages from a draft; the bound is not checked."""
    chosen = choose_sections(
        draft.relevant, splits=draft.splits, max_passages=max_passages, shares=shares
    )
    chosen_ids = {key for name in chosen for key in draft.relevant[name]}
    passages = [(key, text) for key, text in draft.passages.items() if key in chosen_ids]
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
    `qrels.SPLIT.txt` (TREC: query_id 0 passage_id relevance). `test-400` beside them has 400 of the
    test queries, or all where there are fewer, drawn by the SHA-256 of `test-400 ID`. That of the
    id alone has chosen the sections, the last of them by their size. The folder is created if
    missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_lines(folder / "collection.tsv", [f"{key}\t{text}" for key, text in docs.passages])
    for split, queries in docs.queries.items():
        _write_queries(folder, split, queries, docs.qrels[split])
    name = f"test-{NUM_DRAWN}"
    ids = sorted(
        (key for key, _ in docs.queries["test"]), key=lambda i: _stable_hash(f"{name} {i}")
    )
    drawn = {*ids[:NUM_DRAWN]}
    queries = [row for row in docs.queries["test"] if row[0] in drawn]
    qrels = [row for row in docs.qrels["test"] if row[0] in drawn]
    _write_queries(folder, name, queries, qrels)


def _write_queries(
    folder: Path, name: str, queries: list[tuple[str, str]], qrels: list[tuple[str, str, int]]
) -> None:
    _write_lines(folder / f"queries.{name}.tsv", [f"{key}\t{text}" for key, text in queries])
    rows = [f"{query} 0 {passage} {grade}" for query, passage, grade in qrels]
    _write_lines(folder / f"qrels.{name}.txt", rows)


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
