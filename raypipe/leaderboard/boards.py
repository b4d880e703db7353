"""The boards. `local` is not a leaderboard: it has only the rules of every run file."""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Board:
    """The rules of one board, as numbers and patterns."""

    task: str
    form: str
    """msmarco (query TAB passage TAB rank) or trec (six columns)."""
    depths: tuple[tuple[re.Pattern[str], int], ...]
    """Pattern of its passage ids -> largest number of rows per query with such ids."""
    num_passages: int | None = None
    """Ids are 0 to n - 1."""
    query_sets: tuple[tuple[str, int], ...] = ()
    """Its query sets by name, with their numbers of queries."""
    cutoff: int | None = None
    """Cutoff of the reciprocal rank that its script computes on dev."""
    full_rows: bool = False
    """Whether its script warns if a query has fewer rows than allowed."""
    metadata: bool = False
    """Whether it requires an id of the form yyyymmdd-name and a metadata file."""


_NUMBER = re.compile(r"[0-9]+")
_V1_DOCUMENT = re.compile(r"D[0-9]+")
_V2 = re.compile(r"msmarco_(passage|doc)_[0-9]+_[0-9]+")
_PARAGRAPH = re.compile(r"[0-9a-f]{40}")

BOARDS = {
    board.task: board
    for board in (
        # ms_marco_eval.py: whole numbers, 1,000 places; run_eval.py: lines = queries x 1,000.
        Board(
            "msmarco-passage",
            "msmarco",
            ((_NUMBER, 1000),),
            num_passages=8_841_823,
            query_sets=(("dev", 6980), ("eval", 6837)),
            cutoff=10,
            full_rows=True,
            metadata=True,
        ),
        # The document script: string ids, MaxMRRRank 100, a warning above 100 rows.
        Board(
            "msmarco-doc",
            "msmarco",
            ((_V1_DOCUMENT, 100),),
            query_sets=(("dev", 5193), ("eval", 5793)),
            cutoff=100,
            full_rows=True,
            metadata=True,
        ),
        # TREC DL 2019-20 rank v1 to depth 1,000, 2021-23 v2 to depth 100.
        Board("trec-dl", "trec", ((_V2, 100), (_NUMBER, 1000), (_V1_DOCUMENT, 1000))),
        Board("trec-car", "trec", ((_PARAGRAPH, 1000),)),
        Board("local", "msmarco", ()),
    )
}
