"""Which other tool's form a line is in that is no triple, with what makes triples of it."""

import re
from dataclasses import dataclass, field

from raypipe.errors import shown
from raypipe.foreign import header_of

COLUMNS = ("query", "relevant", "irrelevant")
_NAMES = {
    "query": ("query", "question", "anchor", "query_text", "text", "query_id", "qid", "query-id"),
    "relevant": (
        *("positive", "pos", "relevant", "passage", "positive_passage", "doc_pos", "pos_id"),
        *("positive_id", "pid+", "doc_id_a", "pos_pid"),
    ),
    "irrelevant": (
        *("negative", "neg", "irrelevant", "negative_passage", "doc_neg", "neg_id"),
        *("negative_id", "pid-", "doc_id_b", "neg_pid"),
    ),
}
"""Names that other tools give to the columns."""
_NUMBER = re.compile(rb"[+-]?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?")
_LABELS = frozenset(
    (b"true", b"false", b"yes", b"no", b"relevant", b"irrelevant", b"not_relevant", b"positive")
    + (b"negative", b"pos", b"neg", b"entailment", b"neutral", b"contradiction")
)
_ID = re.compile(rb"[\x21-\x7e]*[0-9][\x21-\x7e]*")
"""A word of ASCII with a digit."""


def names_columns(line: bytes) -> bool:
    """Whether a first line names the columns of triples, and is no text that has these words."""
    header = header_of(line, _NAMES, *_NAMES)
    if header is None or (b"\t" in line and header.separator != "\t"):
        return False
    return all(len(name.split()) == 1 for name in header.names)


def remedy_of(line: bytes, *, of_ids: bool) -> str:
    """What makes triples of a line that is none, after "; "; empty if its form is not known.

    Args:
        line: it has not three columns, or ids that are unknown.
        of_ids: whether ids are expected, with any white space between, or texts with tabs.
    """
    columns, begin = line.split(b"\t"), line.lstrip()
    words = line.split()
    one_each = (
        "write a line for each pair of a relevant and an irrelevant passage, tabs between: "
        + ("query id, relevant id, irrelevant id" if of_ids else "query, relevant, irrelevant")
    )
    if line.startswith(b"PAR1"):
        return f"; this is Parquet: {one_each}"
    if begin.startswith((b"{", b"[")) and len(columns) == 1:
        return f"; this is JSON: {one_each}"
    if names_columns(line):
        return "; this line names the columns: remove it, and write them in this order"
    if not words:
        return "; remove the empty line"
    if len(columns) == 1 and line.count(b",") >= 2:
        return f"; this has commas: {one_each}"
    if of_ids:
        return _of_ids(words, columns)
    if len(columns) == 2:
        return (
            "; a pair has no irrelevant passage: give passages as a collection and pairs as qrels, "
            "and draw train.NAME.negatives from a run, or mine them"
        )
    return f"; {one_each}" if len(columns) > 3 else ""


def _of_ids(words: list[bytes], columns: list[bytes]) -> str:
    numbers = [_NUMBER.fullmatch(word) is not None for word in words]
    if len(words) == 4 and words[1] in (b"0", b"Q0") and numbers[3]:
        return "; these are judgements: give them as train.NAME.qrels, with negatives from a run"
    if len(words) == 6 and words[1] in (b"0", b"Q0") and numbers[3] and numbers[4]:
        return "; this is a run: give it as train.NAME.negatives.runs, with qrels"
    if len(words) == 5 and numbers[0] and numbers[1] and b"." in words[0] + words[1]:
        return (
            "; a teacher's scores stand in front: write them as a run of query, passage and score, "
            "for train.NAME.teacher, with negatives from a run and the ids here as qrels"
        )
    if len(columns) == 3 and any(len(column.split()) > 1 for column in columns):
        return "; these are texts: give them as train.NAME.texts"
    if any(word[:1] == b'"' for word in words):
        return "; remove the quotes"
    if len(words) > 3:
        return "; repeat query and relevant id in a line for each further irrelevant one"
    return ""


@dataclass
class Seen:
    """What the lines of triples of texts have in common, of which each alone may be a text."""

    labels: list[bool] = field(default_factory=lambda: [True] * 3)
    """Of each column: whether every value is a number or a label, such as `true`."""
    ids: bool = True
    """Whether every value is a word with a digit."""
    first: list[bytes] | None = None
    """The first line's columns."""

    def add(self, columns: list[bytes]) -> None:
        """Look at a line of three columns."""
        self.first = self.first or columns
        if any(self.labels):
            of = zip(self.labels, columns, strict=True)
            self.labels = [so_far and _is_label(value) for so_far, value in of]
        if self.ids:
            self.ids = all(_ID.fullmatch(value) for value in columns)

    def problem(self) -> str | None:
        """Why they are no texts; None if they may be.

        Relevant and irrelevant passages may both be numbers, as answers are, but not one of them;
        and every relevant one may be `yes`.
        """
        if self.first is None:
            return None
        texts = [column.decode(errors="replace") for column in self.first]
        if self.ids:
            return (
                f"expected texts, found only ids, such as {shown(' '.join(texts))}; give the file "
                "as train.NAME.triples, with the collection and the queries that have these ids"
            )
        at = self.labels.index(True) if sum(self.labels) == 1 else None
        if at is not None and (at != 1 or _is_number(self.first[at])):
            return (
                f"expected texts, found only numbers or labels in column {at + 1}, such as "
                f"{shown(texts[at])}: labelled pairs or ids are no triples of texts; write query, "
                "relevant and irrelevant passage, or give a collection, queries and the labels as "
                "qrels, with train.NAME.negatives or pairs from a run"
            )
        return None


def _is_label(value: bytes) -> bool:
    return value.strip().lower() in _LABELS or _is_number(value)


def _is_number(value: bytes) -> bool:
    return _NUMBER.fullmatch(value.strip().lower()) is not None
