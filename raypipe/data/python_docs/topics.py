"""Sections of the language reference in `pydoc_data.topics`, one per heading or definition."""

import re
from collections.abc import Iterator

from raypipe.data.python_docs.source import Section

UNIT = "topics"
"""The topics repeat each other, so they are treated as one module."""
_UNDERLINE = re.compile(r"([*=\-~^])\1{2,}$")
_DEFINITION = re.compile(r"(?:class |classmethod |static |async )*([A-Za-z_][\w.]*)\([^()]*\)")
_WORD = re.compile(r"\w+")


def topic_sections(texts: dict[str, str]) -> Iterator[Section]:
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
            yield Section(name=f"{UNIT}.{slug}", title=title, heading=heading, text=text)


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
            found = _defined_name(line)
            definition = definition if found and stacked else found
            stacked = bool(found)
        elif line:
            stacked = False
        yield definition or heading, line


def _defined_name(line: str) -> str:
    found = _DEFINITION.fullmatch(line.rstrip())
    return found[1] if found else ""
