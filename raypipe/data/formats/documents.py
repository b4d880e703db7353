"""Collections of documents: MS MARCO's two, and JSON lines whose fields a recipe names.

Source: microsoft/MSMARCO-Document-Ranking (v1), TREC Deep Learning 2021 (v2).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raypipe.data.files.inputs import find_files
from raypipe.data.formats.fields import checked_id, json_id, json_object, json_text, shown

Document = tuple[str, str, str, str]
"""(document_id, title, headings, body), each as in the file; nothing is stripped."""
V2_FIELDS = {"id": "docid", "title": "title", "headings": "headings", "body": "body"}
"""The fields of MS MARCO v2 documents."""


def v1_files(inputs: Sequence[Path]) -> list[Path]:
    """Files of docid TAB url TAB title TAB body; in a folder, `msmarco-docs.tsv` or all *.tsv."""
    return find_files(
        inputs,
        patterns=[r"msmarco-docs\.tsv", r".*\.tsv"],
        expected="msmarco-docs.tsv or other *.tsv of docid, url, title and body",
    )


def document_v1(record: bytes) -> Document:
    """The columns docid, url, title, body; further tabs belong to the body; no headings.

    Raises:
        ValueError: fewer than four columns, a bad id, or not UTF-8.
    """
    columns = record.split(b"\t", 3)
    if len(columns) < 4:
        raise ValueError(
            "expected four tab-separated columns: docid, url, title, body; found"
            f" {len(columns)} in {shown(record[:80].decode(errors='replace'))}"
        )
    document_id, _, title, body = columns
    return checked_id(document_id.decode(), field="docid"), title.decode(), "", body.decode()


def v2_files(inputs: Sequence[Path]) -> list[Path]:
    """The 60 files msmarco_doc_00 ... 59 of a folder, otherwise all its *.jsonl or *.json."""
    return find_files(
        inputs,
        patterns=[r"msmarco_doc_\d+(\.jsonl?)?", r".*\.jsonl", r".*\.json"],
        expected="msmarco_doc_*.gz or *.jsonl with the fields docid, title, headings and body",
    )


def json_files(inputs: Sequence[Path]) -> list[Path]:
    """Each file named, and the *.jsonl (otherwise *.json) of each folder."""
    return find_files(inputs, patterns=[r".*\.jsonl", r".*\.json"], expected="*.jsonl")


def document_of(record: bytes, fields: Mapping[str, str]) -> Document:
    """The fields of a JSON line named for id, title, headings and body; a title of null is empty.

    A name that `fields` lacks means that the documents have no such field.

    Raises:
        ValueError: a named field is missing or not text, a bad id, not JSON, or not UTF-8.
    """
    found = json_object(record)
    title, headings = (_text_or_null(found, fields.get(name)) for name in ("title", "headings"))
    return json_id(found, fields["id"]), title, headings, json_text(found, fields["body"])


def passage_of(record: bytes, fields: Mapping[str, str]) -> tuple[str, str]:
    """The id and the body of a JSON line that is a passage; see `document_of`."""
    found = json_object(record)
    return json_id(found, fields["id"]), json_text(found, fields["body"])


def home_of(record: bytes, fields: Mapping[str, str]) -> tuple[str, str]:
    """The document that a passage is part of, and its spans there; "" if nothing says them.

    Raises:
        ValueError: see `document_of`.
    """
    found = json_object(record)
    name = fields.get("spans", "")
    spans = json_text(found, name) if found.get(name) is not None else ""
    return json_id(found, fields["document"]), spans


def _text_or_null(found: dict[str, Any], field: str | None) -> str:
    if field is None or (field in found and found[field] is None):
        return ""
    return json_text(found, field)
