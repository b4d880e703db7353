"""JSON lines with an id, a text and perhaps a title, under any name of the field."""

from collections.abc import Collection, Mapping, Sequence

from raypipe import foreign
from raypipe.data.formats.fields import json_id, json_object, json_text, titled


def parse(record: bytes) -> tuple[str, str]:
    """The id and the text, behind the title and a blank if there is a title.

    Raises:
        ValueError: not such an object, a bad id, or not UTF-8.
    """
    fields = json_object(record)
    passage_id = json_id(fields, *names_of(fields, foreign.PASSAGES, "passage_id"))
    text = json_text(fields, names_of(fields, foreign.PASSAGES, "text")[0])
    named = foreign.columns_of(fields, foreign.PASSAGES).get("title")
    title = "" if named is None or fields[named] is None else json_text(fields, named)
    return passage_id, titled(title, text)


def names_of(
    fields: Collection[str], wanted: Mapping[str, Sequence[str]], own: str
) -> tuple[str, ...]:
    """The field of that meaning; if there is none, all that it could be, for the message."""
    columns = foreign.columns_of(fields, wanted)
    return (columns[own],) if own in columns else tuple(wanted[own])
