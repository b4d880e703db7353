"""MS MARCO's tab-separated records of documents and candidates.

Source: microsoft/MSMARCO-Document-Ranking (v1) and MSMARCO-Passage-Ranking (`top1000`).
"""

from raypipe.data.formats.fields import checked_id
from raypipe.data.formats.json_lines import Document
from raypipe.errors import shown


def document_v1(record: bytes) -> Document:
    """The columns docid, url, title, body; further tabs belong to the body; no headings.

    Raises:
        ValueError: fewer than four columns, a bad id, or not UTF-8.
    """
    document_id, _, title, body = _four_columns(record, "docid, url, title, body")
    return checked_id(document_id.decode(), field="docid"), title.decode(), "", body.decode()


def parse_candidate(record: bytes) -> tuple[str, str, str]:
    """Query id, passage id and query text of a `top1000` file; further tabs are the passage's.

    The official files are unordered, and some queries have fewer than 1000 passages.

    Raises:
        ValueError: fewer than four columns, a bad id, or not UTF-8.
    """
    columns = _four_columns(record, "query id, passage id, query, passage")
    query_id = checked_id(columns[0].decode(), field="query id")
    return query_id, checked_id(columns[1].decode(), field="passage id"), columns[2].decode()


def _four_columns(record: bytes, names: str) -> list[bytes]:
    columns = record.split(b"\t", 3)
    if len(columns) < 4:
        raise ValueError(
            f"expected four tab-separated columns: {names}; found {len(columns)} in "
            f"{shown(record[:80].decode(errors='replace'))}"
        )
    return columns
