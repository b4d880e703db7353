"""BEIR collections: a folder with corpus.jsonl, or the file itself."""

from collections.abc import Sequence
from pathlib import Path

from raypipe.data.files.inputs import find_files
from raypipe.data.formats.fields import json_id, json_object, json_text, titled


def files(inputs: Sequence[Path]) -> list[Path]:
    """corpus.jsonl of each folder, and each file named."""
    return find_files(inputs, patterns=[r"corpus\.jsonl"], expected="corpus.jsonl")


def parse(record: bytes) -> tuple[str, str]:
    """`_id`, and title, blank, text; only the text if the title is missing or empty."""
    fields = json_object(record)
    passage_id, text = json_id(fields, "_id"), json_text(fields, "text")
    title = "" if fields.get("title") is None else json_text(fields, "title")
    return passage_id, titled(title, text)
