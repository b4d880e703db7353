"""MS MARCO passage collections.

Source: microsoft/MSMARCO-Passage-Ranking (v1), TREC Deep Learning 2021 (v2).
"""

from collections.abc import Sequence
from pathlib import Path

from raypipe.data.files.inputs import find_files
from raypipe.data.formats.fields import id_and_text, json_id, json_object, json_text


def v1_files(inputs: Sequence[Path]) -> list[Path]:
    """Files of id TAB text; in a folder, `collection.tsv` or otherwise all *.tsv."""
    return find_files(
        inputs,
        patterns=[r"collection\.tsv", r"collection.*\.tsv", r".*\.tsv"],
        expected="collection.tsv or other *.tsv of id TAB text",
    )


def parse_v1(record: bytes) -> tuple[str, str]:
    """Id and text, split at the first tab; quotes and further tabs are text."""
    return id_and_text(record)


def v2_files(inputs: Sequence[Path]) -> list[Path]:
    """The 70 files msmarco_passage_00 ... 69 of a folder, otherwise all its *.jsonl or *.json."""
    return find_files(
        inputs,
        patterns=[r"msmarco_passage_\d+(\.jsonl?)?", r".*\.jsonl", r".*\.json"],
        expected="msmarco_passage_*.gz or *.jsonl with the fields pid and passage",
    )


def parse_v2(record: bytes) -> tuple[str, str]:
    """`pid` and `passage` of a JSON line."""
    fields = json_object(record)
    return json_id(fields, "pid"), json_text(fields, "passage")
