"""From sections to judged passages: every step before the size of the collection is chosen."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raypipe.data.python_docs.builtin import builtin_sections
from raypipe.data.python_docs.packages import package_sections
from raypipe.data.python_docs.source import (
    Section,
    docstring_sections,
    stdlib_folder,
    topics,
)
from raypipe.data.python_docs.split import (
    PACKAGE_SHARES,
    PRIORITY,
    SHARES,
    split_units,
    unit_of,
)
from raypipe.data.python_docs.text import name_words, near_duplicates, paragraphs, words
from raypipe.data.python_docs.topics import topic_sections

NEAR_DUPLICATE = 0.6
"""Two texts whose sets of words have at least this Jaccard coefficient may not be in two splits."""


@dataclass(frozen=True, kw_only=True)
class Draft:
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


def drafted() -> Draft:
    """The draft from Python's own documentation, without near-duplicates across splits.

    Raises:
        InputError: a Python without its library's source.
    """
    return _drafted(_own_sections(), SHARES, frozenset())


def drafted_packages(folders: Sequence[Path]) -> Draft:
    """The draft from installed packages; leaves out texts and queries of Python's documentation.

    Raises:
        InputError: no package in the folders, or a Python without its library's source.
    """
    own = drafted()
    known = frozenset(own.passages.values()) | frozenset(own.queries.values())
    return _drafted(package_sections(folders), PACKAGE_SHARES, known)


def _drafted(
    sections_of: Iterable[Section], shares: Mapping[str, float], known: frozenset[str]
) -> Draft:
    sections = _named(sections_of)
    every = {name: paragraphs(section.text) for name, section in sections.items()}
    held = {name: [t for t in texts if t not in known] for name, texts in every.items()}
    held = {name: texts for name, texts in held.items() if texts}
    queries = _queries({name: sections[name] for name in held}, held)
    queries = {name: text for name, text in queries.items() if text not in known}
    splits = _splits(held, queries, shares)
    passages, relevant = _identified(held, splits)
    owners = {key: splits[name] for name, keys in relevant.items() for key in keys}
    doubles = _doubles(passages, owners)
    double_queries = _doubles(queries, splits)
    kept = {
        name: [key for key in keys if key not in doubles]
        for name, keys in relevant.items()
        if not doubles.issuperset(keys)
    }
    asked = {
        name: text for name, text in queries.items() if name in kept and name not in double_queries
    }
    return Draft(
        passages={key: text for key, text in passages.items() if key not in doubles},
        relevant=kept,
        queries=asked,
        splits=splits,
        facts={
            "sections": len(sections),
            "near_duplicate_passages_dropped": len(doubles),
            "near_duplicate_queries_dropped": len(double_queries),
        },
    )


def _own_sections() -> Iterator[Section]:
    folder = stdlib_folder()
    yield from docstring_sections(folder)
    yield from builtin_sections()
    yield from topic_sections(topics(folder))


def _named(found: Iterable[Section]) -> dict[str, Section]:
    """Sections by name, in reading order; the first of several with one name."""
    sections: dict[str, Section] = {}
    for section in found:
        sections.setdefault(section.name, section)
    return dict(sorted(sections.items(), key=lambda each: each[1].module))


def _queries(sections: dict[str, Section], held: dict[str, list[str]]) -> dict[str, str]:
    """Section -> title and heading in words, if not a single word, a repetition or in the text."""
    queries: dict[str, str] = {}
    asked: set[frozenset[str]] = set()
    for name, section in sections.items():
        query = name_words(f"{section.title}.{section.heading}")
        key = frozenset(query.split())
        if len(key) > 1 and key not in asked:
            if not any(_contains(text, query) for text in held[name]):
                asked.add(key)
                queries[name] = query
    return queries


def _contains(text: str, query: str) -> bool:
    return f" {query} " in f" {' '.join(words(text))} " or query in text.lower()


def _splits(
    held: dict[str, list[str]], queries: dict[str, str], shares: Mapping[str, float]
) -> dict[str, str]:
    """Section -> split, by module."""
    units = {name: unit_of(name.partition(".")[0]) for name in held}
    sizes = dict.fromkeys(units.values(), 0)
    for name in queries:
        sizes[units[name]] += 1
    splits = split_units(sizes, shares)
    return {name: splits[unit] for name, unit in units.items()}


def _identified(
    held: dict[str, list[str]], splits: dict[str, str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """(passage_id -> text, section -> passage ids), every text once.

    A text of several sections gets the first one's id and is relevant for all of them in that
    split. If several splits share it, only the highest split has it.
    """
    ids: dict[str, tuple[str, str]] = {}
    for split in reversed(PRIORITY):
        for name, texts in held.items():
            for number, text in enumerate(texts, start=1):
                if splits[name] == split:
                    ids.setdefault(text, (split, f"{name}#{number}"))
    relevant = {
        name: list(dict.fromkeys(ids[text][1] for text in texts if ids[text][0] == splits[name]))
        for name, texts in held.items()
    }
    keys = {text: key for text, (_, key) in ids.items()}
    passages = {keys[text]: text for texts in held.values() for text in texts}
    return passages, {name: found for name, found in relevant.items() if found}


def _doubles(texts: dict[str, str], splits: dict[str, str]) -> set[str]:
    """Keys of texts with a near-duplicate in a split of higher priority."""
    keys = list(texts)
    ranks = [PRIORITY.index(splits[key]) for key in keys]
    pairs = near_duplicates(list(texts.values()), groups=ranks, threshold=NEAR_DUPLICATE)
    return {keys[min(pair, key=lambda index: ranks[index])] for pair in pairs}
