"""Checks of a run file's lines: errors with line numbers, and warnings."""

import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.evaluation.run_files.columns import SHOWN, Codes, places, repeats, unprintable
from raypipe.evaluation.run_files.lines import Lines
from raypipe.vocabulary import BreakTies

logger = logging.getLogger(__name__)


def refuse(path: Path, lines: Lines, form: str) -> None:
    """Returns nothing if these lines are a ranking.

    Raises:
        InputError: scores that are not finite, a passage twice for one query, ids that are empty or
            have white space in them, or ranks that do not order a query's passages; the first ten
            of each, with line numbers.
    """
    where = "row" if form == "parquet" else "line"
    problems = []
    if lines.score is not None:
        bad = np.flatnonzero(~np.isfinite(lines.score))
        for at in bad[:SHOWN]:
            problems.append(
                f"{path}: {where} {lines.number[at]}: score {lines.score[at]} is not a finite "
                "float32; leave the passage out or score it again"
            )
        problems += _rest(path, len(bad))
    twice = repeats(lines.queries, lines.passages)
    for group in twice[:SHOWN]:
        query, passage = _name(lines.queries, group[0]), _name(lines.passages, group[0])
        at_lines = ", ".join(str(number) for number in lines.number[group[:SHOWN]])
        problems.append(
            f"{path}: {where}s {at_lines}: query {query} ranks passage {passage} "
            f"{len(group)} times; keep one"
        )
    problems += _rest(path, len(twice))
    if form not in ("trec", "msmarco"):  # whose columns end at white space
        problems += _id_problems(path, where, "query", lines.queries, lines)
        problems += _id_problems(path, where, "passage", lines.passages, lines)
    if form != "trec" and lines.rank is not None:
        problems += _rank_problems(path, where, lines, lines.rank)
    if problems:
        raise InputError(problems)


def _id_problems(path: Path, where: str, kind: str, ids: Codes, lines: Lines) -> list[str]:
    """Problems with ids that judgements do not have, and that no run file can hold."""
    bad = unprintable(ids.names)
    problems = []
    for name in bad[:SHOWN]:
        at = int(np.argmax(ids.codes == ids.names.index(name).as_py()))
        cause = "white space or a control character in the" if name else "empty"
        shown = f" {name!r:.80}" if name else ""
        problems.append(f"{path}: {where} {lines.number[at]}: {cause} {kind} id{shown}")
    return problems + _rest(path, len(bad))


def _rank_problems(path: Path, where: str, lines: Lines, rank: NDArray[np.float32]) -> list[str]:
    """Problems with ranks that do not order a query's passages."""
    problems = []
    bad = np.flatnonzero(~np.isfinite(rank) | (rank < 1) | (rank != np.floor(rank)))
    for at in bad[:SHOWN]:
        number, found = lines.number[at], rank[at]
        problems.append(f"{path}: {where} {number}: expected a rank from 1; found {found:g}")
    problems += _rest(path, len(bad))
    by_rank = np.lexsort((rank, lines.queries.codes))
    same = np.diff(lines.queries.codes[by_rank]) == 0
    tied = np.flatnonzero(same & (rank[by_rank][1:] == rank[by_rank][:-1]))
    for at in tied[:SHOWN]:
        first, second = by_rank[at : at + 2]
        problems.append(
            f"{path}: {where}s {lines.number[first]} and {lines.number[second]}: two passages at "
            f"rank {rank[first]:g} of query {_name(lines.queries, first)}; expected each rank once"
        )
    return problems + _rest(path, len(tied))


def contradicted(form: str, lines: Lines, best: NDArray[np.int64]) -> list[str]:
    """The queries whose rank column differs from the run's order, `best`, in that order."""
    if lines.rank is None:
        return []
    codes, given = lines.queries.codes[best], lines.rank[best]
    if form == "trec":
        wrong = (np.diff(codes) == 0) & (np.diff(given) <= 0)
        found = codes[1:][wrong]
    else:
        found = codes[given != places(codes)]
    return [str(lines.queries.names[int(code)]) for code in dict.fromkeys(found.tolist())]


def warn(path: Path, form: str, queries: list[str], break_ties: BreakTies = "id") -> None:
    """Warn of these `contradicted` queries, if there are any."""
    message = "%s: %d queries: ranks are missing; the gaps are closed (first: query %s)"
    if form == "trec":
        message = "%s: %d queries: the rank column contradicts the order by score, then passage id"
        message += " descending, which is used, as in trec_eval (first: query %s); --break-ties"
        message += " rank keeps the file's order of equal scores"
    if form == "trec" and break_ties == "rank":
        message = "%s: %d queries: the rank column contradicts the order by score, which is used,"
        message += " as in trec_eval (first: query %s)"
    if queries:
        logger.warning(message, path, len(queries), queries[0])


def _rest(path: Path, count: int) -> list[str]:
    return [f"{path}: {count - SHOWN} more like these"] if count > SHOWN else []


def _name(ids: Codes, position: int) -> str:
    return str(ids.names[int(ids.codes[position])])
