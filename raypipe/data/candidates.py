"""MS MARCO's `top1000` files: query id, passage id, query text, passage text, tab-separated.

The official files are unordered, and some queries have fewer than 1000 passages.
"""

from raypipe.data.formats.fields import checked_id, shown


def parse_candidate(record: bytes) -> tuple[str, str, str]:
    """Query id, passage id and query text; further tabs belong to the passage.

    Raises:
        ValueError: fewer than four columns, a bad id, or not UTF-8.
    """
    columns = record.split(b"\t", 3)
    if len(columns) < 4:
        raise ValueError(
            "expected four tab-separated columns: query id, passage id, query, passage; found"
            f" {len(columns)} in {shown(record[:80].decode(errors='replace'))}"
        )
    query_id = checked_id(columns[0].decode(), field="query id")
    return query_id, checked_id(columns[1].decode(), field="passage id"), columns[2].decode()
