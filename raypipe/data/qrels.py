"""Judgements: TREC and MS MARCO (four columns) and BEIR (three, with a header)."""

from pathlib import Path

import pyarrow as pa

from raypipe.data.files.problems import Problems
from raypipe.data.files.rows import parsed_lines
from raypipe.data.formats.fields import checked_id, shown
from raypipe.errors import InputError
from raypipe.schema import QRELS

_BEIR_HEADER = [b"query-id", b"corpus-id", b"score"]
_MAX_GRADE = 2**31 - 1
Judgement = tuple[str, str, int]


def read_qrels(path: Path) -> pa.Table:
    """Judgements as `schema.QRELS`, in file order, each pair once.

    Columns are separated by blanks or tabs: `query iteration passage grade` (TREC and MS MARCO;
    the iteration may be anything), or BEIR's `query passage grade` below its header. Blank lines
    are skipped, as in trec_eval; a judgement given twice with one grade counts once.

    Raises:
        InputError: invalid lines, one pair with two grades, or no judgements.
    """
    problems = Problems()
    seen: dict[tuple[str, str], tuple[int, int]] = {}
    for number, row in parsed_lines(path, _Parser(), problems):
        if row is None:
            continue
        query_id, passage_id, grade = row
        first, known = seen.setdefault((query_id, passage_id), (number, grade))
        if known != grade:
            problems.add(
                f"{path}: line {number:,}: query {query_id!r}, passage {passage_id!r} has grade"
                f" {grade}, but {known} in line {first:,}; keep one of them"
            )
    problems.raise_if_any()
    if not seen:
        raise InputError(f"{path}: no judgements in the file")
    return pa.table(
        {
            "query_id": [query_id for query_id, _ in seen],
            "passage_id": [passage_id for _, passage_id in seen],
            "relevance": [grade for _, grade in seen.values()],
        },
        schema=QRELS,
    )


class _Parser:
    """Parses lines in order; the first line decides whether there are three or four columns."""

    def __init__(self) -> None:
        self._expected: str | None = None

    def __call__(self, record: bytes) -> Judgement | None:
        columns = record.split()
        if not columns:
            return None
        if self._expected is None:
            is_header = [column.lower() for column in columns] == _BEIR_HEADER
            self._expected = "query-id corpus-id score" if is_header else "query 0 passage grade"
            if is_header:
                return None
        if len(columns) != len(self._expected.split()):
            raise ValueError(
                f"expected the columns {self._expected}, found {len(columns)} in"
                f" {shown(record[:80].decode(errors='replace'))}"
            )
        return (
            checked_id(columns[0].decode(), field="query id"),
            checked_id(columns[-2].decode(), field="passage id"),
            _grade(columns[-1]),
        )


def _grade(column: bytes) -> int:
    try:
        if b"_" in column:  # Python reads 1_0 as 10
            raise ValueError
        grade = int(column)
    except ValueError:
        raise ValueError(f"expected an integer grade, found {shown(column.decode())}") from None
    if abs(grade) > _MAX_GRADE:
        raise ValueError(f"grade {shown(grade)} is beyond 32 bits")
    return grade
