"""Checks the arguments of the Python API: numbers, texts, runs, judgements, scores and models."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import foreign, numerics, schema
from raypipe.config.parts import PACKAGED_MODELS
from raypipe.data.formats.fields import checked_id
from raypipe.data.qrels import check_columns, note_unjudged, read_qrels, whole_grade
from raypipe.data.records import Problems
from raypipe.errors import InputError, shown
from raypipe.evaluation.run_files.runs import is_unordered, ranked, read_run
from raypipe.evaluation.run_files.tables import table_lines
from raypipe.ranking.by_id import SHOWN
from raypipe.ranking.candidates import Keys, missing
from raypipe.uris import hub_name
from raypipe.vocabulary import Precisions, words


def count_of(name: str, value: object) -> int:
    """The value as an int, if it is a whole number from 1.

    Raises:
        InputError: it is not.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name}: expected a whole number from 1; found {value!r}")
    return int(value)


def number_of(name: str, value: object, *, low: float = -math.inf, high: float = math.inf) -> float:
    """The value as a float, if it is a finite number from `low` to `high`.

    Raises:
        InputError: it is not.
    """
    number = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # an int beyond the range of a float
            pass
    if not (math.isfinite(number) and low <= number <= high):
        bounds = [
            f" from {low:g}" if low > -math.inf else "",
            f" to {high:g}" if high < math.inf else "",
        ]
        raise InputError(f"{name}: expected a finite number{''.join(bounds)}; found {shown(value)}")
    return number


def is_table(given: Any) -> bool:
    """Whether it gives an Arrow stream of columns, like a DataFrame, but not a Series."""
    has_columns = any(hasattr(given, name) for name in ("column_names", "columns", "schema"))
    return has_columns and hasattr(given, "__arrow_c_stream__")


def table_of(given: Any, name: str) -> pa.Table:
    """The table as a pyarrow table.

    Raises:
        InputError: it cannot be read as one.
    """
    if isinstance(given, pa.Table):
        return given
    try:
        return pa.table(given)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{name}: cannot be read as an Arrow table ({error})") from error


def column_of(table: pa.Table, column: str, name: str) -> pa.ChunkedArray:
    """A column of the table.

    Raises:
        InputError: it is missing; the message names the existing ones.
    """
    if column not in table.column_names:
        names = ", ".join(table.column_names) or "none"
        raise InputError(f"{name}: expected a column {column}; found {names}")
    return table[column]


def id_of(given: Any, field: str) -> str:
    """An id as a string; an integer is written in decimal.

    Raises:
        ValueError: another type, empty, no Unicode text, or with white space in it.
    """
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return str(int(given))
    if not isinstance(given, str):
        raise ValueError(f"expected a string as {field}, found {shown(given)}")
    if problem := _text_problem(given):
        raise ValueError(f"{field}: {problem}")
    return checked_id(str(given), field=field)


Given: TypeAlias = Sequence[str] | Mapping[str, str] | pa.Table
"""A list or column of texts (ids are positions), a dictionary id -> text, or an Arrow table or
DataFrame with an id column and `text`. The position of a text is its row, which decides ties."""


class Texts(NamedTuple):
    """Texts in row order."""

    ids: pa.Array
    """Strings, each once."""
    texts: list[str]


def texts_of(given: Given, kind: str) -> Texts:
    """The texts with their ids, checked.

    Args:
        given: see `Given`.
        kind: query or passage; a table's id column is `query_id` or `passage_id`.

    Raises:
        InputError: one text where several are expected, values that are not texts, bad or repeated
            ids; the first ten.
    """
    if isinstance(given, str | bytes):
        raise InputError(f"{kind} texts: found one text; expected several: put it in a list")
    if isinstance(given, Mapping):
        return _checked_texts(list(given), list(given.values()), kind)
    if is_table(given):
        table = table_of(given, f"{kind} texts")
        ids, texts = (column_of(table, name, f"{kind} texts") for name in (f"{kind}_id", "text"))
        return _checked_texts(ids.to_pylist(), texts.to_pylist(), kind)
    texts = _listed(given)
    if texts is None:
        raise InputError(
            f"{kind} texts: found {type(given).__name__}; expected a list or column of texts, a "
            f"dictionary id -> text, or an Arrow table or DataFrame with {kind}_id and text"
        )
    return _checked_texts(list(range(len(texts))), texts, kind)


def ids_of(given: Any, kind: str, count: int) -> pa.Array:
    """The checked ids of `count` vectors; None gives positions.

    Raises:
        InputError: not a list, another number of ids, bad or repeated ones.
    """
    ids = list(range(count)) if given is None else _listed(given)
    if ids is None:
        raise InputError(f"{kind}_ids: found {type(given).__name__}; expected a list or column")
    if len(ids) != count:
        raise InputError(f"{kind}_ids: found {len(ids)}; expected one per vector, {count}")
    return _checked_texts(ids, [""] * count, kind).ids


def _listed(given: Any) -> list[Any] | None:
    """The values of a list, or of a column of an Arrow table or a DataFrame."""
    if isinstance(given, list | tuple):
        return list(given)
    values = getattr(given, "to_pylist", None) or getattr(given, "to_list", None)
    return None if values is None else list(values())


def _checked_texts(ids: list[Any], texts: list[Any], kind: str) -> Texts:
    problems, seen, names = Problems(), dict[str, int](), []
    for row, (given, text) in enumerate(zip(ids, texts, strict=True)):
        try:
            name = id_of(given, f"{kind} id")
        except ValueError as error:
            problems.add(f"{kind} {row}: {error}")
            continue
        if seen.setdefault(name, row) != row:
            problems.add(f"{kind} {row}: id {name!r} again, first at {seen[name]}; keep one")
        problem = _text_problem(text)
        if problem:
            problems.add(f"{kind} {row} (id {name!r}): {problem}")
        names.append(name)
    problems.raise_if_any()
    return Texts(pa.array(names, pa.string()), texts)


def _text_problem(text: Any) -> str:
    if not isinstance(text, str):
        return f"expected a text, found {type(text).__name__}; an empty text is ''"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"not Unicode text ({error.reason}); write U+FFFD in its place"
    return ""


Run: TypeAlias = pa.Table | Mapping[str, Mapping[str, float]] | str | Path
"""A table with query_id, passage_id, score and, if it decides the order, rank; a dictionary
query id -> passage id -> score; or the path of a run file."""
CandidateLists: TypeAlias = Run | Mapping[str, Sequence[str]]
"""A run, or candidates without ranks and scores: a table with query_id and passage_id, a dictionary
query id -> list of passage ids, or the path of such a file."""


class CandidateRun(NamedTuple):
    """Candidates as a run."""

    run: pa.Table
    """`schema.RUN_FILE`."""
    unordered: int
    """The most candidates of a query, if they have no ranks and scores; else 0."""

    def refuse_cut(self, k: int) -> None:
        """Returns nothing if the first k of each query are all, or have an order.

        Raises:
            InputError: k would leave out candidates by their place in the list.
        """
        if k < self.unordered:
            raise InputError(
                f"k: the candidates have neither ranks nor scores, and a query has "
                f"{self.unordered:,}, of which {k:,} would take the first of the list; give "
                f"k={self.unordered} or more, or scores"
            )


def candidates_of(given: CandidateLists, name: str = "run") -> CandidateRun:
    """The candidates as a run; without ranks and scores those of a query stand as given.

    Raises:
        InputError: not a run and not such candidates, with the first ten problems.
    """
    if isinstance(given, str | Path):
        run, without = read_run(given, unordered=True), is_unordered(Path(given))
    elif isinstance(given, Mapping):
        without = bool(given) and all(isinstance(each, list | tuple) for each in given.values())
        run = _ranked(_table_of_lists(given, name), name) if without else run_of(given, name)
    elif is_table(given):
        table = table_of(given, name)
        lines = table_lines(Path(name), table)
        without = lines.rank is None and lines.score is None
        run = _ranked(table, name)
    else:
        return CandidateRun(run_of(given, name), 0)  # which refuses it
    return CandidateRun(run, (pc.max(run["rank"]).as_py() or 0) if without else 0)


def _ranked(table: pa.Table, name: str) -> pa.Table:
    if not len(table):
        return schema.RUN_FILE.empty_table()
    return ranked(Path(name), table_lines(Path(name), table), "parquet", unordered=True)


def _table_of_lists(given: Mapping[Any, Any], name: str) -> pa.Table:
    lines = ((query, passage, None) for query, listed in given.items() for passage in listed)
    queries, passages, _ = _checked_lines(lines, name, lambda value: value, Problems())
    types = pa.schema([("query_id", pa.string()), ("passage_id", pa.string())])
    return pa.table([queries, passages], schema=types)


def _checked_lines(
    lines: Iterable[tuple[Any, Any, Any]],
    name: str,
    value_of: Callable[[Any], Any],
    problems: Problems,
) -> tuple[list[str], list[str], list[Any]]:
    """The query ids, the passage ids and the values of lines that have one of each.

    Args:
        lines: (query id, passage id, value) as given.
        name: what has the lines, in messages.
        value_of: the value as it is kept; an error of it is a problem of its line.
        problems: receives those of the lines, beside others that taking the lines adds to it.

    Raises:
        InputError: there are problems; the first ten.
    """
    columns: tuple[list[str], list[str], list[Any]] = ([], [], [])
    for query, passage, given in lines:
        try:
            line = id_of(query, "query id"), id_of(passage, "passage id"), value_of(given)
        except (TypeError, ValueError, OverflowError) as error:
            problems.add(f"{name}: query {query!r}, passage {passage!r}: {error}")
            continue
        for column, cell in zip(columns, line, strict=True):
            column.append(cell)
    problems.raise_if_any()
    return columns


def run_of(given: Run, name: str = "run") -> pa.Table:
    """The run, `schema.RUN_FILE`: queries in order of first appearance, best first within each.

    The rank decides if there is one; otherwise descending score as float32, then descending passage
    id, as in trec_eval and `read_run`.

    Args:
        given: see `Run`; without any line it is a run of no queries.
        name: the run's name in messages.

    Raises:
        InputError: not a run, with the first ten problems.
    """
    if isinstance(given, str | Path):
        return read_run(given)
    if isinstance(given, Mapping):
        given = table_of_scores(given, name)
    elif not is_table(given):
        raise InputError(
            f"{name}: found {type(given).__name__}; expected a table with query_id, passage_id and "
            "score, a dictionary query id -> passage id -> score, or the path of a run file"
        )
    table = table_of(given, name)
    lines = table_lines(Path(name), table)
    return ranked(Path(name), lines, "parquet") if len(table) else schema.RUN_FILE.empty_table()


def named_runs(given: Mapping[str, Run]) -> dict[str, pa.Table]:
    """Each run of a dictionary name -> run.

    Raises:
        InputError: one of them is not a run, or there are none.
    """
    if not given:
        raise InputError("runs: found none; expected a dictionary name -> run")
    return {str(name): run_of(run, str(name)) for name, run in given.items()}


def is_one_run(given: Any) -> bool:
    """Whether it is a single run rather than a dictionary of runs: its inner values are numbers."""
    if not isinstance(given, Mapping):
        return True
    return all(
        isinstance(scores, Mapping)
        and not any(isinstance(value, Mapping) for value in scores.values())
        for scores in given.values()
    )


def listed_runs(given: Sequence[Run]) -> list[pa.Table]:
    """Each run of a list.

    Raises:
        InputError: one of them is not a run, or there is no list.
    """
    if not isinstance(given, list | tuple):
        raise InputError(f"runs: found {type(given).__name__}; expected a list of runs")
    return [run_of(run, f"run {number}") for number, run in enumerate(given, start=1)]


def _score_of(value: Any) -> float:
    """The value as a float, if a table could have it in a column of numbers.

    Raises:
        TypeError: it is text, bytes, True or no number.
    """
    own = value.item() if isinstance(value, np.generic) else value
    if isinstance(own, bool) or not hasattr(own, "__float__"):  # float reads text and bytes too
        raise TypeError(f"score: expected a number, found {shown(own)}")
    return float(own)


def table_of_scores(given: Mapping[Any, Any], name: str) -> pa.Table:
    """A dictionary query id -> passage id -> score as a table with these three columns.

    Raises:
        InputError: values that are not ids or numbers; the first ten.
    """
    problems = Problems()

    def lines() -> Iterator[tuple[Any, Any, Any]]:
        for query, scores in given.items():
            if isinstance(scores, Mapping):
                yield from ((query, passage, score) for passage, score in scores.items())
            else:
                problems.add(f"{name}: query {query!r}: expected a dictionary passage id -> score")

    types = [("query_id", pa.string()), ("passage_id", pa.string()), ("score", pa.float64())]
    columns = _checked_lines(lines(), name, _score_of, problems)
    return pa.table([*columns], schema=pa.schema(types))


Qrels: TypeAlias = pa.Table | Mapping[str, Mapping[str, int]] | str | Path
"""A table with query_id, passage_id and relevance, or other names of these (`raypipe.foreign`); a
dictionary query id -> passage id -> grade; or the path of a TREC, MS MARCO or BEIR file."""


def qrels_of(given: Qrels) -> pa.Table:
    """The judgements, `schema.QRELS`.

    Raises:
        InputError: no judgements, or invalid ones, with the first ten problems.
    """
    if isinstance(given, str | Path):
        return read_qrels(Path(given))
    if isinstance(given, Mapping):
        table = _checked_grades(
            [
                (query, passage, grade)
                for query, grades in given.items()
                for passage, grade in _grades(query, grades).items()
            ]
        )
        note_unjudged("qrels", [str(query) for query, grades in given.items() if not grades])
        return table
    if not is_table(given):
        raise InputError(
            f"qrels: found {type(given).__name__}; expected a table with query_id, passage_id and "
            "relevance, a dictionary query id -> passage id -> grade, or the path of a file"
        )
    table = table_of(given, "qrels")
    columns = foreign.columns_of(table.column_names, foreign.QRELS)
    if lacking := [own for own in schema.QRELS.names if own not in columns]:
        raise InputError(
            f"qrels: expected a column {lacking[0]}; found {', '.join(table.column_names)} "
            f"({foreign.also(foreign.QRELS, *lacking)})"
        )
    if twice := [each for each in columns.values() if table.column_names.count(each) > 1]:
        raise InputError(f"qrels: expected each column once, found {', '.join(twice)} twice")
    check_columns("qrels", table.schema)
    values = [table[columns[own]].to_pylist() for own in schema.QRELS.names]
    return _checked_grades(list(zip(*values, strict=True)))


def _grades(query: Any, grades: Any) -> Mapping[Any, Any]:
    if not isinstance(grades, Mapping):
        raise InputError(f"qrels: query {query!r}: expected a dictionary passage id -> grade")
    return grades


def _checked_grades(rows: list[tuple[Any, Any, Any]]) -> pa.Table:
    def grade_of(value: Any) -> int:
        return whole_grade(value.item() if isinstance(value, np.number) else value)

    columns = _checked_lines(rows, "qrels", grade_of, Problems())
    return pa.table([*columns], schema=schema.QRELS)


Scores: TypeAlias = pa.Table | Mapping[str, Mapping[str, float]]
"""The table that `score` returned for a run, or a dictionary query id -> passage id -> score."""


class KeyedScores(NamedTuple):
    """Scores by their keys."""

    keys: Keys
    values: NDArray[np.float32]
    of_pairs: bool
    """Whether they are scores of pairs, from a duoBERT model."""


def held_scores(given: Scores, queries: pa.Array, passages: pa.Array) -> KeyedScores:
    """The scores by the rows of their ids; scores of other ids are left out.

    Args:
        given: see `Scores`.
        queries: the id of each query row.
        passages: the id of each passage row.

    Raises:
        InputError: no scores, missing columns, or a candidate twice.
    """
    if isinstance(given, Mapping):
        given = table_of_scores(given, "scores")
    elif not is_table(given):
        raise InputError(
            f"scores: found {type(given).__name__}; expected the table that `score` returned of a "
            "run, or a dictionary query id -> passage id -> score"
        )
    table = table_of(given, "scores")
    of_pairs = "other_id" in table.column_names
    names = ["query_id", "passage_id", *(["other_id"] if of_pairs else [])]
    places = [
        pc.index_in(column_of(table, name, "scores").cast(pa.string()), value_set=ids)
        for name, ids in zip(names, (queries, passages, passages), strict=False)
    ]
    kept = np.logical_and.reduce([place.is_valid().to_numpy() for place in places])
    rows = [place.fill_null(-1).to_numpy().astype(np.int64)[kept] for place in places]
    keys = (rows[0], rows[1], rows[2] if of_pairs else np.full(len(rows[0]), -1, np.int64))
    _refuse_repeats(keys, queries, passages)
    column = column_of(table, "probability" if of_pairs else "score", "scores")
    try:
        numbers = foreign.as_numbers("probability" if of_pairs else "score", column)
    except ValueError as error:
        raise InputError(f"scores: {error}") from None
    with np.errstate(over="ignore"):  # an infinite one is refused with the ranking
        values = numbers.to_numpy().astype(np.float32)[kept]
    return KeyedScores(keys, values, of_pairs)


def refuse_missing(
    candidates: Keys, scores: KeyedScores, queries: pa.Array, passages: pa.Array
) -> None:
    """Returns nothing if every candidate has a score.

    Raises:
        InputError: some have none, with their number and the first ten.
    """
    lacking = np.flatnonzero(missing(candidates, scores.keys))
    if len(lacking):
        raise InputError(
            f"scores: {len(lacking)} of {len(candidates[0])} candidates have no score, first "
            f"{_shown(candidates, lacking, queries, passages)}; score them, or lower k to the "
            "candidates that were scored: a missing score is never made up"
        )


def _refuse_repeats(keys: Keys, queries: pa.Array, passages: pa.Array) -> None:
    order = np.lexsort(keys[::-1])
    same = np.logical_and.reduce([part[order][1:] == part[order][:-1] for part in keys])
    if same.any():
        shown = _shown(keys, order[1:][same], queries, passages)
        raise InputError(f"scores: {int(same.sum())} candidates repeated, first {shown}; keep one")


def _shown(keys: Keys, at: NDArray[np.int64], queries: pa.Array, passages: pa.Array) -> str:
    query_rows, rows, _ = keys
    names = [(queries[int(query_rows[n])], passages[int(rows[n])]) for n in at[:SHOWN]]
    return ", ".join(f"({query}, {passage})" for query, passage in names)


if TYPE_CHECKING:
    from raypipe.models.folder.model_folder import ModelFolder

DEVICES = ("auto", "cpu", "cuda")


def model_of(
    model: str | Path, preset: str | None, *, settings: Mapping[str, Any] | None = None
) -> "ModelFolder":
    """The model of a folder, a packaged name or a hub's name; its files are hashed, not loaded.

    A hub's, such as OWNER/NAME@COMMIT, is taken from huggingface_hub's own cache, where it is
    fetched to. `settings` are keys of raypipe.json that override the folder's own.

    It sets MKL's strict mode, as the command line does, unless MKL_CBWR is set: then a row has the
    bytes that a pipeline stores. The mode takes effect if nothing has multiplied matrices in this
    process before.

    Raises:
        InputError: there is no such model, or it cannot be used; see `resolve_model`.
    """
    numerics.set_strict()
    from raypipe.driver.models import unfit
    from raypipe.driver.proof.proof import computable
    from raypipe.models.folder.model_folder import resolve_model

    path = str(model)
    named = None if path in PACKAGED_MODELS else hub_name(path, Path())
    if named is not None:
        from raypipe.models.hub import pinned

        path = pinned(named)
    folder = resolve_model(path, preset, settings=settings)
    problems = unfit(folder)
    if problems:
        raise InputError(problems)
    return computable({"model": folder})["model"]


def settings_of(prompts: Mapping[str, str] | None) -> dict[str, str] | None:
    """The settings that put these texts in front of queries and passages; None if none are given.

    Raises:
        InputError: another key than query and passage.
    """
    if prompts is None:
        return None
    if not isinstance(prompts, Mapping) or not {*prompts} <= {"query", "passage"}:
        raise InputError(
            'prompts: expected text by side, such as {"query": "query: ", "passage": "passage: "}, '
            f"found {prompts!r:.80}"
        )
    return {f"{side}_prefix": prompts.get(side, "") for side in ("query", "passage")}


def device_of(device: str) -> str:
    """cpu or cuda; auto means cuda if torch can use it.

    Raises:
        InputError: another word, or cuda if torch cannot use it.
    """
    if device not in DEVICES:
        raise InputError(f"device: expected one of {', '.join(DEVICES)}; found {device!r}")
    return _chosen(device, "auto")[0]


def placed(model: "ModelFolder", device: str, precision: str) -> tuple["ModelFolder", str]:
    """The model in a precision, unless it has its own, and the device (see `device_of`).

    As in a pipeline, auto means fp32 on a CPU, on a GPU bf16 or, before Ampere, fp16; fastest means
    the same on a GPU, on a CPU the first of int8+bf16, int8, bf16 and fp32 that it computes in,
    without a bf16 that is slower than fp32.

    Raises:
        InputError: another word, or a precision, here or of the model's own, in which the device
            does not multiply.
    """
    from raypipe.models.machine.precision import refuse_unable

    device_of(device)
    known = ("auto", "fastest", *words(Precisions))
    if precision not in known:
        raise InputError(f"precision: expected one of {', '.join(known)}; found {precision!r}")
    chosen_precision, of_device = _chosen(device, precision)
    own = model.in_precision(of_device)
    refuse_unable(own.precision, chosen_precision, f"the settings of {model.path}: precision")
    return own, chosen_precision


@cache
def _chosen(device: str, precision: str) -> tuple[str, str]:
    """Device and precision."""
    from raypipe.driver.devices import choose

    choice = choose(device, precision=precision)
    return choice.device, choice.precision
