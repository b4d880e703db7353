"""Pyserini's JSON collections: an id and `contents`, one object per line."""

from collections.abc import Sequence
from pathlib import Path

from raypipe.data.files.inputs import find_files
from raypipe.data.formats.fields import json_id, json_object, json_text


def files(inputs: Sequence[Path]) -> list[Path]:
    """Each file named, and the *.jsonl (otherwise *.json) of each folder."""
    return find_files(
        inputs, patterns=[r".*\.jsonl", r".*\.json"], expected="*.jsonl with id and contents"
    )


def parse(record: bytes) -> tuple[str, str]:
    """`id` (or `_id`, `docid`) and `contents`."""
    fields = json_object(record)
    return json_id(fields, "id", "_id", "docid"), json_text(fields, "contents")
