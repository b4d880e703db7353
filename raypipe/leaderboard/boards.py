"""The boards, each with its rules and the measure of its script.

`local` is not a leaderboard: it has only the rules of every run file.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the help of commands names the boards, and loads no tables for it
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Measure:
    """The measure that the script of a board computes."""

    name: str
    """Such as MRR @10."""
    compute: "Callable[[Mapping[str, Sequence[str]], pa.Table], tuple[float, int]]"
    """(value, number of queries) of rankings, given qrels (schema.QRELS)."""


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
    numbered_queries: bool = False
    """Whether query ids are whole numbers."""
    query_sets: tuple[tuple[str, int], ...] = ()
    """Its query sets by name, with their numbers of queries."""
    measure: Measure | None = None
    """Measure that its script computes on dev; None if there is none."""
    full_rows: bool = False
    """Whether its script warns if a query has fewer rows than allowed."""
    metadata: bool = False
    """Whether it requires an id of the form yyyymmdd-name and a metadata file."""


def reciprocal_rank(
    rankings: Mapping[str, Sequence[str]], qrels: "pa.Table", *, cutoff: int
) -> tuple[float, int]:
    """(mean, number of queries) as computed by MS MARCO's evaluation scripts.

    The first passage at ranks 1 to `cutoff` that the qrels have for the query counts 1/rank,
    whatever its grade. The sum, in the run's order of queries, is divided by the number of queries
    in the qrels: queries missing from the run count 0, and other queries of the run are ignored.
    """
    relevant: dict[str, set[str]] = {}
    for query, passage in zip(
        qrels["query_id"].to_pylist(), qrels["passage_id"].to_pylist(), strict=True
    ):
        relevant.setdefault(query, set()).add(passage)
    total = 0.0
    for query, passages in rankings.items():
        relevant_passages = relevant.get(query, ())
        for rank, passage in enumerate(passages[:cutoff], 1):
            if passage in relevant_passages:
                total += 1 / rank
                break
    return total / len(relevant), len(relevant)


def mrr(cutoff: int) -> Measure:
    """The mean reciprocal rank of the first passages, by MS MARCO's scripts."""
    return Measure(f"MRR @{cutoff}", partial(reciprocal_rank, cutoff=cutoff))


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
            numbered_queries=True,
            query_sets=(("dev", 6980), ("eval", 6837)),
            measure=mrr(10),
            full_rows=True,
            metadata=True,
        ),
        # The document script: string ids, MaxMRRRank 100, a warning above 100 rows.
        Board(
            "msmarco-doc",
            "msmarco",
            ((_V1_DOCUMENT, 100),),
            numbered_queries=True,
            query_sets=(("dev", 5193), ("eval", 5793)),
            measure=mrr(100),
            full_rows=True,
            metadata=True,
        ),
        # TREC DL 2019-20 rank v1 to depth 1,000, 2021-23 v2 to depth 100.
        Board("trec-dl", "trec", ((_V2, 100), (_NUMBER, 1000), (_V1_DOCUMENT, 1000))),
        Board("trec-car", "trec", ((_PARAGRAPH, 1000),)),
        Board("local", "msmarco", ()),
    )
}
