"""MS MARCO's `top1000` files: query id, passage id, query text, passage text, tab-separated.

The official files are not ordered, and some queries have fewer than 1000 passages.
"""

from collections.abc import Iterator
from pathlib import Path

from raypipe.data.files.problems import Problems
from raypipe.data.files.rows import parsed_lines
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


def read_candidates(path: Path) -> Iterator[tuple[str, str]]:
    """(query_id, passage_id) of each line in file order, streamed; repeated pairs included.

    Raises:
        InputError: at the end, lines that are not candidates, the first ten and a count.
    """
    problems = Problems()
    for _, (query_id, passage_id, _) in parsed_lines(path, parse_candidate, problems):
        yield query_id, passage_id
    problems.raise_if_any()
