"""TREC's topics: a query's id is the topic's number, and its text the topic's title.

Source: the topics of TREC's Robust, Web and COVID tracks: `<top> <num> Number: 301 <title> ...` in
SGML, whose tags need no end, or `<topic number="1"><title>...</title>` (or `<query>`) in XML.
"""

import html
import re
from collections.abc import Iterator

_BEGINS = re.compile(r"\s*(<\?xml|<!|<top|<topics|<xml|<query)", re.IGNORECASE)
_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>((?:(?!<\1\b).)*?)</\1\s*>", re.IGNORECASE | re.DOTALL)
_BEGIN = re.compile(r"<(top|topic)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\b(?:number|qid|id)\s*=\s*[\"']([^\"']*)[\"']", re.IGNORECASE)
_LABEL = re.compile(r"^\s*(?:number|topic)\s*:\s*", re.IGNORECASE)


def looks_like_topics(text: str) -> bool:
    """Whether a file that begins with this text holds topics."""
    return _BEGINS.match(text) is not None


def parse_topics(text: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """Line number (from 1) of each topic, its number and its title; white space is one blank.

    Raises:
        ValueError: a topic without a number, a title or its end, by the line of its beginning.
    """
    for begin in _BEGIN.finditer(text):
        line = text.count("\n", 0, begin.start()) + 1
        topic = _TOPIC.match(text, begin.start())
        if topic is None:
            end = f"</{begin.group(1)}>"
            raise ValueError(f"line {line:,}: a topic without its end, {end}; is the file cut off?")
        _, attributes, body = topic.groups()
        given = _NUMBER.search(attributes)
        number = given.group(1) if given else _field(body, "num", "number")
        title = _field(body, "title", "query")
        if number is None or title is None:
            lacking = "a number" if number is None else "a title"
            raise ValueError(f"line {line:,}: a topic without {lacking}")
        yield line, (_LABEL.sub("", number).strip(), re.sub(r"^Topic:\s*", "", title))


def _field(body: str, *names: str) -> str | None:
    """The text of the first of these elements, which ends where the next tag begins."""
    for name in names:
        found = re.search(rf"<{name}\b[^>]*>([^<]*)", body, re.IGNORECASE)
        if found:
            return " ".join(html.unescape(found.group(1)).split())
    return None
