"""A run as a board will read it, and the finding about each rule; writes and corrects nothing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe.data.records import BOM
from raypipe.errors import InputError, shown
from raypipe.evaluation.run_files.columns import Codes, encode
from raypipe.evaluation.run_files.forms import form_of
from raypipe.evaluation.run_files.lines import (
    TREC_COLUMNS,
    LineProblems,
    line_blocks,
    read_lines,
    split_words,
    without_comments,
)
from raypipe.evaluation.run_files.runs import read_run
from raypipe.leaderboard.boards import Board
from raypipe.storage.compression import open_binary
from raypipe.vocabulary import BreakTies


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule of a board: whether it applies, whether it holds, and what was found."""

    rule: str
    applies: bool
    ok: bool
    detail: str
    """Message for the user: the result of the check, or why the rule does not apply."""

    def to_json(self) -> dict[str, str | bool]:
        """The finding in check.json."""
        return {"rule": self.rule, "applies": self.applies, "ok": self.ok, "told": self.detail}


def holds(rule: str, detail: str) -> Finding:
    """A rule that holds."""
    return Finding(rule, True, True, detail)


def broken(rule: str, detail: str) -> Finding:
    """A rule that is broken."""
    return Finding(rule, True, False, detail)


def does_not_apply(rule: str, why: str) -> Finding:
    """A rule that this board, or this file, does not have."""
    return Finding(rule, False, True, why)


def refuse_broken(findings: Sequence[Finding]) -> None:
    """Returns nothing if every rule that applies holds.

    Raises:
        InputError: every broken rule.
    """
    problems = [f"{finding.rule}: {finding.detail}" for finding in findings if not finding.ok]
    if problems:
        raise InputError(problems)


Findings = Mapping[str, Sequence[Finding]]
"""The findings about several files or runs, by their names."""


def with_names(findings: Findings) -> list[Finding]:
    """All of them, with the name of the file or run before each rule."""
    return [
        replace(each, rule=f"{name}: {each.rule}")
        for name, some in findings.items()
        for each in some
    ]


def rules_to_json(findings: Findings) -> dict[str, list[dict[str, str | bool]]]:
    """All of them, as in check.json."""
    return {name: [each.to_json() for each in some] for name, some in findings.items()}


@dataclass(frozen=True)
class RunLines:
    """Columns of a run."""

    path: Path
    form: str
    """The file's format, msmarco or trec; table for any other, which is read as a ranking."""
    queries: Codes
    passages: Codes
    rank: NDArray[np.float64]
    score: NDArray[np.float32] | None = None
    number: NDArray[np.int64] | None = None
    """Line numbers, if the file has lines."""
    separators: str = ""
    """"" if every line is as the board's script reads it (query TAB passage TAB rank, or `query Q0
    passage rank score tag`), otherwise the problem."""
    tags: tuple[str, ...] = ()
    """The first tags of a trec file, at most three."""

    @property
    def query_ids(self) -> list[str]:
        """Query ids in order of first appearance."""
        return [str(name) for name in self.queries.names.to_pylist()]

    def rankings(self) -> Mapping[str, list[str]]:
        """Passage ids of each query by rank."""
        order = np.lexsort((self.rank, self.queries.codes))
        names = self.passages.names.take(pa.array(self.passages.codes[order])).to_pylist()
        return {query: names[start:stop] for query, start, stop in self._spans(order)}

    def scores(self) -> Mapping[str, list[float]]:
        """Float32 scores of each query by rank; 1, 1/2, 1/3, ... if the file has only ranks."""
        order = np.lexsort((self.rank, self.queries.codes))
        spans = list(self._spans(order))
        if self.score is None:
            return {query: [1 / n for n in range(1, stop - at + 1)] for query, at, stop in spans}
        ordered = self.score[order].tolist()
        return {query: ordered[start:stop] for query, start, stop in spans}

    def _spans(self, order: NDArray[np.int64]) -> Iterator[tuple[str, int, int]]:
        """(query, start, stop) of each query's lines, in an order that keeps them together."""
        codes = self.queries.codes[order]
        ids = self.query_ids
        edges = np.flatnonzero(np.diff(codes)) + 1
        bounds = [0, *edges.tolist(), len(codes)] if len(codes) else [0]
        for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
            yield ids[codes[start]], start, stop


def read_run_lines(path: Path, *, form: str = "", break_ties: BreakTies = "id") -> RunLines:
    """The run of a file; of any form but TREC and MS MARCO it is a table.

    Args:
        path: see `read_run`.
        form: the board's; unless it is trec, a third column that may be ranks or scores is ranks.
        break_ties: see `read_run`.

    Raises:
        InputError: a file that is not a run.
    """
    board_form = form
    form = form_of(path, undecided="msmarco" if form in ("msmarco", "any") else None)
    if form not in ("trec", "msmarco"):
        return of_table(read_run(path, break_ties=break_ties), path)
    lines = read_lines(path, form)
    assert lines.rank is not None
    separators, tags = _raw(path, form, strict=board_form in ("any", form))
    rank = lines.rank.astype(np.float64)
    return RunLines(
        path, form, lines.queries, lines.passages, rank, lines.score, lines.number, separators, tags
    )


def of_table(run: pa.Table, path: Path) -> RunLines:
    """A run (schema.RUN_FILE) as lines."""
    rank, score = run["rank"].to_numpy().astype(np.float64), run["score"].to_numpy()
    return RunLines(path, "table", encode(run["query_id"]), encode(run["passage_id"]), rank, score)


def _raw(path: Path, form: str, *, strict: bool) -> tuple[str, tuple[str, ...]]:
    """A message on the first line that the board's script would not take, and a trec file's tags.

    Parsing ignores both. The lines of a trec file are checked only if `strict`, for a board of
    that form.
    """
    problem, first = "", 1
    tags: dict[str, None] = {}
    if form == "msmarco" or strict:
        with open_binary(path) as file:
            if file.read(len(BOM)) == BOM:
                problem = "line 1: a byte order mark, which a script takes into the query's id"
    for block in line_blocks(path):
        if not problem and (form == "msmarco" or strict):
            wrong = _wrong_lines(block, first, _LINES[form])
            problem = next(
                (f"line {n}: {_EXPECTED[form]}; found {shown!r}" for n, shown in wrong), ""
            )
        if form == "msmarco" and problem:
            break
        if form == "trec" and len(tags) < 3:
            tags.update(_tags(path, block))
        first += block.count(b"\n")
    return problem, tuple(tags)[:3]


def _wrong_lines(
    block: bytes, first: int, expected: re.Pattern[bytes]
) -> Iterator[tuple[int, str]]:
    content = block.removesuffix(b"\n")
    good = len(expected.findall(content)) == content.count(b"\n") + 1
    for number, line in enumerate(() if good else content.split(b"\n"), first):
        if not expected.fullmatch(line):
            yield number, line.decode(errors="replace")[:60]


_LINES = {
    "msmarco": re.compile(rb"^[^\t\n\r ]+\t[^\t\n\r ]+\t[0-9]+$", re.MULTILINE),
    "trec": re.compile(
        rb"^[ \t]*(?:\S+[ \t]+Q0[ \t]+\S+[ \t]+[0-9]+[ \t]+\S+[ \t]+\S+)?[ \t]*\r?$", re.MULTILINE
    ),
}
_EXPECTED = {
    "msmarco": "expected query TAB passage TAB rank, a whole number",
    "trec": "expected `query Q0 passage rank score tag`, since the scripts of TREC's tracks refuse "
    "what else trec_eval reads",
}


def _tags(path: Path, block: bytes) -> dict[str, None]:
    """The tags, in order of first appearance; each is decoded once."""
    columns, _ = split_words(without_comments(block), TREC_COLUMNS, 1, LineProblems(path))
    words = dict.fromkeys(columns[-1] if columns else ())
    return dict.fromkeys(word.decode(errors="replace") for word in words)


def check_open(board: Board) -> Finding:
    """Whether the board takes runs, as far as its entry says."""
    rule = "board"
    if board.closed is not None:
        detail = (
            f"closed since {board.closed}: it takes no runs; its rules are checked all the same"
        )
        return does_not_apply(rule, detail)
    if board.form == "any":
        return does_not_apply(rule, "none: these are the rules of every run file")
    return holds(rule, f"{board.task} takes runs, as far as is known")


def check_lines(
    run: RunLines,
    board: Board,
    *,
    queries: Sequence[str] | None = None,
    query_set: str | None = None,
    fewer_rows: bool = False,
    break_ties: BreakTies = "id",
) -> list[Finding]:
    """The findings about every rule of the board for the run itself, in a fixed order.

    Args:
        run: the lines as read.
        board: the board with the rules.
        queries: exactly the ids that the run must have; None compares their number with the board's
            query sets.
        query_set: which of the board's query sets it is (dev, eval); None means any.
        fewer_rows: accept queries with fewer rows than the board's script expects.
        break_ties: rank accepts equal scores, whose order `pack` then makes explicit.
    """
    depth, ids = _ids(run, board)
    return [
        _form(run, board),
        ids,
        _query_ids(run, board),
        _ranks(run),
        _repeats(run),
        _depth(run, depth),
        _rows(run, board, depth, fewer_rows),
        _query_set(run, board, queries, query_set),
        _scores(run, board, break_ties),
        _tag(run, board),
    ]


def _form(run: RunLines, board: Board) -> Finding:
    rule = "file format"
    if run.form == "table" or board.form not in ("any", run.form):
        form = "trec or msmarco" if board.form == "any" else board.form
        detail = f"{run.path.name} is not a {form} file; pack writes one from it"
        return does_not_apply(rule, detail)
    if run.separators and run.form == "trec" and board.form == "any":
        detail = f"trec, {len(run.rank):,} lines, which trec_eval reads, but not every script"
        return holds(rule, f"{detail}: {run.separators}")
    if run.separators and run.form == "trec":
        return broken(rule, f"{run.path}: {run.separators}; {_rewrite(run)} writes it anew")
    if run.separators:
        return broken(rule, f"{run.path}: {run.separators}; the board's script splits on tabs")
    return holds(rule, f"{run.form}, {len(run.rank):,} lines")


def _ids(run: RunLines, board: Board) -> tuple[int | None, Finding]:
    """The depth for these ids, and the finding whether they are the board's."""
    rule = "passage ids"
    names = [str(name) for name in run.passages.names.to_pylist()]
    depths = board.depths or {".+": None}
    if not board.depths and board.num_passages is None:
        return None, does_not_apply(rule, "any id is accepted")
    best, own, depth = names, "", next(iter(depths.values()))
    for pattern, rows in depths.items():
        strangers = [name for name in names if not re.fullmatch(pattern, name)]
        if len(strangers) < len(best) or not strangers:
            best, own, depth = strangers, pattern, rows
    if best:
        patterns = f"{own}, as the others are" if own else " or ".join(depths)
        detail = f"{len(best):,} ids are not of the form {patterns}; first {shown(best[0])}"
        return depth, broken(rule, detail)
    if board.num_passages is not None:
        beyond = [name for name in names if not _is_below(name, board.num_passages)]
        if beyond:
            detail = (
                f"{len(beyond):,} ids are not in the collection of 0 to {board.num_passages - 1:,}"
                f" (written without leading zeros), first {shown(beyond[0])}"
            )
            return depth, broken(rule, detail)
    return depth, holds(rule, f"{len(names):,} passages")


def _query_ids(run: RunLines, board: Board) -> Finding:
    rule = "query ids"
    if board.query_ids is None:
        return does_not_apply(rule, "any id without blanks is accepted")
    strangers = [name for name in run.query_ids if not re.fullmatch(board.query_ids, name)]
    # For a script 007 is 7, for judgements and queries files it is not.
    padded = [name for name in strangers if re.fullmatch(board.query_ids, name.lstrip("0") or "0")]
    if strangers and len(padded) == len(strangers):
        detail = (
            f"{len(padded):,} begin with a zero, first {shown(padded[0])}; write them without it"
        )
        return broken(rule, detail)
    if strangers:
        detail = f"{len(strangers):,} are not of the form {board.query_ids}"
        return broken(rule, f"{detail}, first {shown(strangers[0])}")
    return holds(rule, f"{len(run.query_ids):,} queries")


def _rewrite(run: RunLines, depth: int | None = None) -> str:
    """The command that writes the run anew: in its order, with ranks from 1, cut."""
    depth = int(np.bincount(run.queries.codes).max()) if depth is None else depth
    return f"`raypipe fuse --runs {run.path} --depth {depth} --out FOLDER`"


def _ranks(run: RunLines) -> Finding:
    """Checks that each query has the ranks 1, 2, 3, ..., each once.

    In the board's script, rank 0 overwrites the last place, a rank above the 1,000 crashes it, and
    a missing rank is read as passage 0, which is a real passage.
    """
    rule = "ranks"
    order = np.lexsort((run.rank, run.queries.codes))
    codes, rank = run.queries.codes[order], run.rank[order]
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    expected = np.arange(1, len(codes) + 1) - np.repeat(starts, np.diff([*starts, len(codes)]))
    wrong = np.flatnonzero(rank != expected)
    if len(wrong):
        at = wrong[0]
        line = "" if run.number is None else f", line {run.number[order][at]}"
        detail = (
            f"{len(np.unique(codes[wrong])):,} queries have other ranks than 1, 2, 3, ...; first: "
            f"query {run.query_ids[codes[at]]}{line}: rank {rank[at]:g} in place of {expected[at]}"
            + (f"; {_rewrite(run)} writes them anew" if run.form == "trec" else "")
        )
        return broken(rule, detail)
    return holds(rule, "1, 2, 3, ... in every query")


def _repeats(run: RunLines) -> Finding:
    rule = "repeated passages"
    order = np.lexsort((run.passages.codes, run.queries.codes))
    queries, passages = run.queries.codes[order], run.passages.codes[order]
    twice = np.flatnonzero((queries[1:] == queries[:-1]) & (passages[1:] == passages[:-1]))
    if len(twice):
        query, passage = queries[twice[0]], passages[twice[0]]
        detail = (
            f"{len(twice):,} passages occur twice in a query; first: query "
            f"{run.query_ids[query]}, passage {run.passages.names[int(passage)].as_py()}"
        )
        return broken(rule, detail)
    return holds(rule, "none")


def _depth(run: RunLines, depth: int | None) -> Finding:
    rule = "depth"
    if depth is None:
        return does_not_apply(rule, "no limit")
    rows = np.bincount(run.queries.codes)
    deep = np.flatnonzero(rows > depth)
    if len(deep):
        detail = (
            f"{len(deep):,} queries have more than {depth:,} rows; first: query "
            f"{run.query_ids[deep[0]]} with {rows[deep[0]]:,}; cut them by {_rewrite(run, depth)}"
        )
        return broken(rule, detail)
    return holds(rule, f"at most {rows.max(initial=0):,} rows per query, {depth:,} allowed")


def _rows(run: RunLines, board: Board, depth: int | None, fewer_rows: bool) -> Finding:
    rule = "rows"
    if not board.full_rows or depth is None:
        return does_not_apply(rule, "a query may have fewer rows")
    rows = np.bincount(run.queries.codes)
    short = np.flatnonzero(rows < depth)
    if not len(short):
        return holds(rule, f"{depth:,} in every query")
    detail = (
        f"{len(short):,} queries have fewer than {depth:,} rows (first: query "
        f"{run.query_ids[short[0]]} with {rows[short[0]]:,}), of which the board's script warns"
    )
    if fewer_rows:
        return holds(rule, f"{detail}; accepted, as requested")
    remedy = "fill them from an earlier run by pack --fill-dev or --fill-eval, or accept them with"
    return broken(rule, f"{detail}; {remedy} --allow-fewer-rows")


def _query_set(
    run: RunLines, board: Board, queries: Sequence[str] | None, query_set: str | None
) -> Finding:
    rule = "query set"
    query_ids = set(run.query_ids)
    if queries is not None:
        lacking = [query for query in queries if query not in query_ids]
        more = query_ids - set(queries)
        if lacking or more:
            first = f", first {lacking[0]}" if lacking else ""
            beyond = f", first {min(more)}" if more else ""
            detail = (
                f"{len(lacking):,} queries are missing{first}; {len(more):,} are no part{beyond}"
            )
            return broken(rule, detail)
        return holds(rule, f"the {len(query_ids):,} queries named")
    only = {query_set} if query_set in board.query_sets else {*board.query_sets}
    sizes = [(name, size) for name, size in board.query_sets.items() if name in only]
    if not sizes:
        return does_not_apply(rule, "no queries were named to compare with")
    fitting = [name for name, size in sizes if size == len(query_ids)]
    expected = " or ".join(f"{size:,} ({name})" for name, size in sizes)
    if not fitting:
        return broken(rule, f"expected {expected} queries; found {len(query_ids):,}")
    return holds(rule, f"{len(query_ids):,} queries, as many as {fitting[0]} has")


def _scores(run: RunLines, board: Board, break_ties: BreakTies) -> Finding:
    """Checks the scores: trec_eval sorts by score, then descending id, and ignores ranks."""
    rule = "scores"
    if run.form == "table":
        return does_not_apply(rule, "only those of a TREC file can contradict its ranks")
    if run.form != "trec" or run.score is None:
        return does_not_apply(rule, "the file has none")
    order = np.lexsort((run.rank, run.queries.codes))
    codes, score = run.queries.codes[order], run.score[order]
    if (wrong := ~np.isfinite(score)).any():
        first = run.query_ids[codes[np.flatnonzero(wrong)[0]]]
        detail = f"{int(wrong.sum()):,} are no finite float32 numbers; first: query {first}"
        return broken(rule, f"{detail}; make the run again")
    same = codes[1:] == codes[:-1]
    rising, tied = same & ~(score[1:] <= score[:-1]), same & (score[1:] == score[:-1])
    may_tie = board.scores == "not rising"
    wrong = rising if may_tie or break_ties == "rank" else rising | tied
    if wrong.any():
        places = np.flatnonzero(rising if may_tie else rising | tied)
        remedy = f"; {_rewrite(run)} writes that order"
        if not rising.any():
            remedy = f"; --break-ties rank keeps the file's order of them{remedy}"
        told = "score higher than" if may_tie else "do not score below"
        detail = (
            f"{len(places):,} lines {told} the line above in float32; first: query "
            f"{run.query_ids[codes[places[0]]]}; trec_eval would order them by "
            f"{'score' if may_tie else 'id'}{remedy}"
        )
        return broken(rule, detail)
    if tied.any() and may_tie:
        order_of_ties = "keeps in the file's order" if break_ties == "rank" else "orders by id"
        detail = (
            f"never rising with the rank; {int(tied.sum()):,} lines score the same as the line "
            f"above, which pack {order_of_ties}"
        )
        return holds(rule, detail)
    if tied.any():
        detail = (
            f"{int(tied.sum()):,} lines score the same as the line above; their order in the file "
            "is kept as asked: hand in what pack --break-ties rank writes, not this file"
        )
        return does_not_apply(rule, detail)
    return holds(rule, "strictly decreasing with the rank")


def _tag(run: RunLines, board: Board) -> Finding:
    rule = "tag"
    if run.form != "trec":
        return does_not_apply(rule, "the file has none")
    if board.form == "msmarco":
        return does_not_apply(rule, "the board's files have none")
    if len(run.tags) != 1:
        return broken(rule, f"expected one tag; found {', '.join(run.tags)}")
    return tagged(rule, run.tags[0], board)


def tagged(rule: str, tag: str, board: Board) -> Finding:
    """Whether the board's script takes a tag of this form."""
    if board.tags is not None and not re.fullmatch(board.tags, tag):
        detail = f"expected the form {board.tags}, as {board.task} does; found {shown(tag)}"
        return broken(rule, detail)
    return holds(rule, tag)


def _is_below(name: str, end: int) -> bool:
    """Whether it is a whole number from 0 to end - 1, written without leading zeros."""
    plain = re.fullmatch("0|[1-9][0-9]*", name)
    return plain is not None and len(name) <= len(str(end)) and int(name) < end
