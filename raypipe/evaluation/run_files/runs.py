"""Reads run files as `schema.RUN_FILE`: ids as strings, best first, ranks from 1.

A file is read whole, or in parts of whole queries, so that little of it is in memory at a time.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.columns import SHOWN, Codes, decode, places, repeats, unprintable
from raypipe.evaluation.run_files.forms import form_of
from raypipe.evaluation.run_files.lines import (
    TEXT_FORMATS,
    Block,
    LineProblems,
    Lines,
    lines_of,
    parsed_blocks,
    read_lines,
)
from raypipe.evaluation.run_files.tables import (
    is_parquet,
    read_columns,
    read_parquet,
    read_table,
)
from raypipe.vocabulary import BreakTies

logger = logging.getLogger(__name__)
PART_LINES = 100_000
"""Lines of a part at least, but for the last; they and their block take about 200 MB."""


def read_run(
    path: str | Path, *, break_ties: BreakTies = "id", unordered: bool = False
) -> pa.Table:
    """The run, `schema.RUN_FILE`: queries in order of first appearance, best first within each.

    The form of the file (`forms.form_of`) decides the order, and the score if the file has none:

    - trec: descending score as float32, then descending passage id, as in trec_eval; the rank
      column is ignored, with a warning if it contradicts this order.
    - scored (Tevatron's query, passage, score): as trec.
    - msmarco: the rank; gaps are closed, with a warning; score 1/rank.
    - colbert (query, passage, rank, score): the rank, which the scores may not contradict.
    - parquet and table, with a column for the query and the passage, and one for the rank or the
      score, under any name of `raypipe.foreign`: the rank if there is one, otherwise as trec.
    - top1000; with `unordered` also a parquet or table without rank and score, and ColBERT's
      query, passage, -1: the order of the file, with a warning; score 1/rank.

    Ranks begin at 1, or in every query at 0.

    Args:
        path: plain, .gz, .bz2 or .zst, recognised by its content.
        break_ties: id orders equal scores by passage id as above; rank keeps the file's order among
            them, that of its ranks or, without ranks, of its lines.
        unordered: whether candidates without ranks and scores are enough.

    Raises:
        InputError: a file that is not such a run; scores that are not finite in float32; a passage
            twice for one query, or two passages at one rank; the first ten with line numbers.
    """
    path = Path(path)
    form = form_of(path)
    if form == "parquet":
        lines = read_parquet(path)
    else:
        lines = read_table(path) if form == "table" else read_lines(path, form)
    run = ranked(path, lines, form, break_ties, unordered=unordered)
    if form in ("parquet", "table"):
        _note_rising(path, lines)
    return run


def is_unordered(path: Path) -> bool:
    """Whether a run file has candidates without ranks and scores.

    Raises:
        InputError: it has no form of a run.
    """
    form = form_of(path)
    if form in TEXT_FORMATS:
        return TEXT_FORMATS[form].rank is None and TEXT_FORMATS[form].score is None
    return {"rank", "score"}.isdisjoint(read_columns(path))


def ranked(
    path: Path,
    lines: Lines,
    form: str,
    break_ties: BreakTies = "id",
    *,
    unordered: bool = False,
) -> pa.Table:
    """The run of these lines, `schema.RUN_FILE`; order and errors are those of `read_run`.

    Args:
        path: the name of the lines in messages.
        lines: the lines of a file, or of a table in memory (`tables.table_lines`).
        form: see `forms.form_of`.
        break_ties: see `read_run`.
        unordered: see `read_run`.
    """
    table, queries = ordered(path, lines, form, break_ties, unordered=unordered)
    warn(path, form, queries, break_ties)
    return table


def ordered(
    path: Path,
    lines: Lines,
    form: str,
    break_ties: BreakTies = "id",
    *,
    unordered: bool = False,
) -> tuple[pa.Table, list[str]]:
    """The run of these lines, and the queries whose ranks contradict its order; see `ranked`."""
    if lines.rank is None and lines.score is None and form != "top1000" and not unordered:
        raise InputError(
            f"{path}: expected a rank or a score for each passage, found neither: candidates "
            "without an order are for `read` in a recipe, `raypipe score` and raypipe.score"
        )
    lines = _from_one(form, lines)
    refuse(path, lines, form)
    best = _best_first(form, lines, break_ties)
    rank = places(lines.queries.codes[best]).astype(np.int32)
    score = (1 / rank).astype(np.float32) if lines.score is None else lines.score[best]
    columns = [decode(lines.queries, best), decode(lines.passages, best), rank, score]
    return pa.table(columns, schema=schema.RUN_FILE), contradicted(form, lines, best)


def _from_one(form: str, lines: Lines) -> Lines:
    """The lines with ranks from 1: PyTerrier counts from 0, and so has one 0 in every query."""
    rank = lines.rank
    if form == "trec" or rank is None or not (rank == 0).any():
        return lines
    zeros = np.bincount(lines.queries.codes[rank == 0], minlength=len(lines.queries.names))
    whole = np.isfinite(rank).all() and (rank >= 0).all() and (rank == np.floor(rank)).all()
    return lines._replace(rank=rank + 1) if whole and (zeros == 1).all() else lines


def _best_first(form: str, lines: Lines, break_ties: BreakTies) -> NDArray[np.int64]:
    """Positions of the lines in the run's order."""
    queries = lines.queries.codes
    if form != "trec" and lines.rank is not None:
        return np.lexsort((lines.rank, queries))
    if lines.score is None:
        return np.argsort(queries, kind="stable")
    if break_ties == "rank":
        own = lines.rank
        if own is None or not np.isfinite(own).all():
            return np.lexsort((-lines.score, queries))  # which keeps the order of the lines
        return np.lexsort((own, -lines.score, queries))
    descending = pc.sort_indices(lines.passages.names, sort_keys=[("", "descending")]).to_numpy()
    place = np.empty(len(descending), dtype=np.int32)
    place[descending] = np.arange(len(descending))
    return np.lexsort((place[lines.passages.codes], -lines.score, queries))


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
                "float32 (3.4e38 at most); leave the passage out or score it again"
            )
        problems += _rest(path, len(bad))
    twice = repeats(lines.queries, lines.passages)
    for group in twice[:SHOWN]:
        query, passage = _name(lines.queries, group[0]), _name(lines.passages, group[0])
        at_lines = ", ".join(str(number) for number in lines.number[group[:SHOWN]])
        remedy = "leave such lines out: faiss fills up with -1" if passage == "-1" else "keep one"
        problems.append(
            f"{path}: {where}s {at_lines}: query {query} ranks passage {passage} "
            f"{len(group)} times; {remedy}"
        )
    problems += _rest(path, len(twice))
    if form in ("top1000", "parquet", "table"):  # columns of the others end at white space
        problems += _id_problems(path, where, "query", lines.queries, lines)
        problems += _id_problems(path, where, "passage", lines.passages, lines)
    if form != "trec" and lines.rank is not None:
        problems += _rank_problems(path, where, lines, lines.rank)
    if form == "colbert" and not problems:
        problems += _contradictions(path, lines)
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
        number, value = lines.number[at], rank[at]
        problems.append(f"{path}: {where} {number}: expected a rank from 1; found {value:g}")
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


def _contradictions(path: Path, lines: Lines) -> list[str]:
    """Problems with scores that rise from one rank to the next."""
    assert lines.score is not None
    before, after = _rising(lines)
    return [
        f"{path}: lines {lines.number[first]} and {lines.number[second]}: expected "
        f"scores that fall with the ranks of query {_name(lines.queries, first)} (query, "
        f"passage, rank, score); found {lines.score[first]:g} before {lines.score[second]:g}"
        for first, second in zip(before[:SHOWN], after[:SHOWN], strict=True)
    ] + _rest(path, len(before))


def _note_rising(path: Path, lines: Lines) -> None:
    """Warn of a table whose scores order its passages otherwise than its ranks, which decide."""
    if lines.rank is None or lines.score is None:
        return
    queries = lines.queries.codes[_rising(lines)[0]]
    if len(queries):
        logger.warning(
            "%s: %d queries: scores rise from one rank to the next; the rank column decides, where "
            "ir_measures and PyTerrier order by score (first: query %s); leave the column out for "
            "their order",
            path,
            len(np.unique(queries)),
            lines.queries.names[int(queries[0])],
        )


def _rising(lines: Lines) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of each line whose score is below that of the next rank, and of that next line."""
    assert lines.rank is not None and lines.score is not None
    by_rank = np.lexsort((lines.rank, lines.queries.codes))
    same = np.diff(lines.queries.codes[by_rank]) == 0
    rising = np.flatnonzero(same & (np.diff(lines.score[by_rank]) > 0))
    return by_rank[rising], by_rank[rising + 1]


def contradicted(form: str, lines: Lines, best: NDArray[np.int64]) -> list[str]:
    """The queries whose rank column differs from the run's order, `best`, in that order."""
    if lines.rank is None:
        return []
    codes, given = lines.queries.codes[best], lines.rank[best]
    if form == "trec":
        wrong = (np.diff(codes) == 0) & (np.diff(given) <= 0)
        wrong_codes = codes[1:][wrong]
    else:
        wrong_codes = codes[given != places(codes)]
    return [str(lines.queries.names[int(code)]) for code in dict.fromkeys(wrong_codes.tolist())]


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
    if form == "top1000":
        logger.warning(
            "%s: top1000 has neither ranks nor scores: each query's passages are taken in the order"
            " of the file, which measures nothing",
            path,
        )


def _rest(path: Path, count: int) -> list[str]:
    return [f"{path}: {count - SHOWN} more like these"] if count > SHOWN else []


def _name(ids: Codes, position: int) -> str:
    return str(ids.names[int(ids.codes[position])])


class NotInPartsError(Exception):
    """The file must be read whole: with `runs.read_run`, which also says what is wrong with it."""


def read_parts(
    path: Path,
    *,
    num_lines: int = PART_LINES,
    break_ties: BreakTies = "id",
    unordered: bool = False,
) -> Iterator[pa.Table]:
    """The parts of the run, `schema.RUN_FILE`, one after the other; together they are `read_run`'s.

    Args:
        path: a text file, plain or compressed.
        num_lines: lines of a part at least, but for the last; a query stays in one part.
        break_ties: see `runs.read_run`.
        unordered: see `runs.read_run`.

    Raises:
        NotInPartsError: a file with named columns, a query whose lines stand far apart, or lines
            that are not a run. Parts that came before are to be discarded.
    """
    if is_parquet(path):
        raise NotInPartsError
    try:
        yield from _parts(path, num_lines, break_ties, unordered)
    except InputError as error:
        raise NotInPartsError from error


def _parts(
    path: Path, num_lines: int, break_ties: BreakTies, unordered: bool
) -> Iterator[pa.Table]:
    form = form_of(path)
    if form not in TEXT_FORMATS:
        raise NotInPartsError
    problems = LineProblems(path)
    finished: set[str] = set()
    contradicted: list[str] = []
    for blocks in _of_whole_queries(parsed_blocks(path, form, problems), num_lines):
        problems.refuse()
        lines = lines_of(blocks)
        names = lines.queries.names.to_pylist()
        if not finished.isdisjoint(names):
            raise NotInPartsError
        finished.update(names)
        table, queries = ordered(path, lines, form, break_ties, unordered=unordered)
        contradicted += queries
        yield table
    problems.refuse()
    if not finished:
        raise NotInPartsError
    warn(path, form, contradicted, break_ties)


def _of_whole_queries(blocks: Iterator[Block], num_lines: int) -> Iterator[list[Block]]:
    """The blocks in groups that end where a query ends."""
    group: list[Block] = []
    count = 0
    for block in blocks:
        queries = block[0]
        before = np.flatnonzero(~np.asarray(pc.equal(queries, queries[-1])))
        cut = int(before[-1]) + 1 if len(before) else 0  # from here on all are of the last query
        ends = bool(cut) or (bool(group) and group[-1][0][-1] != queries[0])
        if ends and count + cut >= num_lines:
            yield [*group, _rows(block, 0, cut)] if cut else group
            group, count = [], 0
            block = _rows(block, cut, len(queries))
        group.append(block)
        count += len(block[0])
    if group:
        yield group


def _rows(block: Block, start: int, stop: int) -> Block:
    queries, passages, rank, score, number = block
    return (
        queries[start:stop],
        passages[start:stop],
        None if rank is None else rank[start:stop],
        None if score is None else score[start:stop],
        number[start:stop],
    )
