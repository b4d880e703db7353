"""Reads, writes, fuses, measures and compares runs, without a model."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

import pyarrow as pa
import pyarrow.parquet as pq

from raypipe.api.inputs import (
    Given,
    Qrels,
    Run,
    count_of,
    is_one_run,
    listed_runs,
    named_runs,
    number_of,
    qrels_of,
    run_of,
    texts_of,
)
from raypipe.errors import InputError
from raypipe.evaluation.exports import write_msmarco, write_trec
from raypipe.evaluation.run_files import runs as run_files
from raypipe.evaluation.significance import SEED
from raypipe.ranking.by_id import fuse_by_id
from raypipe.storage.compression import replacing_compressed
from raypipe.vocabulary import DEPTH, MEASURES, FusionMethod

if TYPE_CHECKING:
    from raypipe.evaluation.compare import Compared
    from raypipe.evaluation.measures import Measured

ENDINGS = {
    ".trec": "trec",
    ".run": "trec",
    ".txt": "trec",
    ".tsv": "msmarco",
    ".parquet": "parquet",
}
COMPRESSED = (".gz", ".bz2", ".zst")
Measures = str | Sequence[str]


def write_run(run: Run, path: str | Path, *, tag: str = "raypipe", form: str | None = None) -> None:
    """Write the run; an existing file is replaced as a whole.

    trec: `query Q0 passage rank score tag`, with tied scores lowered by the smallest float32 step,
    so that every evaluator sees this ranking. msmarco: `query passage rank`, to rank 1000. parquet:
    query_id, passage_id, rank and the true score.

    Args:
        run: a table, a dictionary or another file.
        path: its name decides the format: .trec, .run or .txt; .tsv; .parquet. After the first
            four, .gz, .bz2 or .zst compresses the file.
        tag: the system's name in a TREC file, one word.
        form: trec, msmarco or parquet, whatever the name.

    Raises:
        InputError: not a run, a name without a known ending, or ids or a tag that no run file can
            hold.
    """
    if not isinstance(tag, str):
        raise InputError(f"tag: expected one word; found {tag!r}")
    path = _path(path)
    form = _form_of(path) if form is None else form
    table = run_of(run)
    if form == "trec":
        write_trec(table, path, tag=tag)
    elif form == "msmarco":
        write_msmarco(table, path)
    elif form == "parquet":
        with replacing_compressed(path) as out:
            pq.write_table(table, out)
    else:
        raise InputError(f"form: expected trec, msmarco or parquet; found {form!r}")


def read_run(path: str | Path) -> pa.Table:
    """The run in a file: TREC, MS MARCO, Tevatron, ColBERT, top1000, CSV or Parquet, by content.

    Columns query_id, passage_id, rank from 1 and score float32; the order is that of
    `raypipe.evaluation.run_files.runs.read_run`, which also names the errors.

    Raises:
        InputError: not a path, no such file, or not a run.
    """
    return run_files.read_run(_path(path))


def fuse(
    runs: Sequence[Run],
    method: FusionMethod | None = None,
    *,
    weights: Sequence[float] | None = None,
    k: float | None = None,
    depth: int = DEPTH,
    passages: Given | None = None,
) -> pa.Table:
    """One run over the union of the queries: query_id, passage_id, rank from 1, score float32.

    A single run is cut at `depth`, in its own order and with its own scores. Otherwise ties are
    ordered by the position in `passages`, as in a pipeline; without `passages` by ascending passage
    id, as strings, as in `raypipe fuse`.

    Args:
        runs: two or more tables, dictionaries or paths, whose order matters for alternate and
            weighted; or one, to cut it.
        method: alternate, rrf, weighted or average; rrf by default. One run has none.
        weights: for weighted, one per run, from 0; equal by default.
        k: the constant of rrf, for it only; 60 by default.
        depth: number of passages per query.
        passages: the passages that the runs rank, as in `search`.

    Raises:
        InputError: bad runs or settings, or passages of a run that are not among `passages`.
    """
    ids = None if passages is None else texts_of(passages, "passage").ids
    tables = listed_runs(runs)
    return fuse_by_id(
        tables,
        method="rrf" if method is None and len(tables) > 1 else method,
        passages=ids,
        weights=None if weights is None else _weights(weights),
        k=None if k is None else number_of("k", k, low=0),
        depth=count_of("depth", depth),
    )


@overload
def evaluate(
    run: Mapping[str, Mapping[str, float]], qrels: Qrels, measures: Measures = MEASURES
) -> "Measured": ...
@overload
def evaluate(
    run: Mapping[str, Run], qrels: Qrels, measures: Measures = MEASURES
) -> "dict[str, Measured]": ...
@overload
def evaluate(run: Run, qrels: Qrels, measures: Measures = MEASURES) -> "Measured": ...
def evaluate(
    run: Run | Mapping[str, Run], qrels: Qrels, measures: Measures = MEASURES
) -> "Measured | dict[str, Measured]":
    """The run's measures: `mean` by measure, and `per_query` by measure and query id.

    Means are over the queries of the qrels; one that the run lacks counts 0. A dictionary name ->
    run gives a dictionary name -> measures.

    Args:
        run: a table, a dictionary query id -> passage id -> score, a path; or several by name.
        qrels: a table, a dictionary query id -> passage id -> grade, or a path.
        measures: in the notation of ir_measures, as a list or as words in one text: "nDCG@10
            RR(rel=2)@10".

    Raises:
        InputError: an unknown measure, bad runs or qrels, or a run without any judged query.
    """
    from raypipe.evaluation.measures import evaluate as measured
    from raypipe.evaluation.measures import evaluate_file

    judged, names = qrels_of(qrels), _names(measures)
    if isinstance(run, str | Path):
        return evaluate_file(Path(run), judged, names)
    if isinstance(run, Mapping) and not is_one_run(run):
        tables = named_runs(run)
        _note_ties(run, tables)
        return {name: measured(each, judged, names) for name, each in tables.items()}
    return measured(run_of(run), judged, names)


def compare(
    runs: Mapping[str, Run],
    qrels: Qrels,
    measures: Measures = MEASURES,
    *,
    baseline: str | None = None,
    seed: int = SEED,
) -> "Compared":
    """Every run compared with the baseline, in `rows`, one per measure and run.

    The numbers are those of `raypipe compare`. A row has the mean and n, the difference with its
    95% interval, wins, ties and losses, p of the paired t test and of the randomisation test, the
    latter corrected by Holm, and the share of unjudged passages. `per_query` has the underlying
    values. A file with equal scores of one query is noted in the log.

    Args:
        runs: name -> run, two or more.
        qrels: as in `evaluate`, like `measures`.
        measures: measures that have a mean; counts are refused.
        baseline: the name of one of the runs; by default the first.
        seed: of the bootstrap and the randomisation test.

    Raises:
        InputError: fewer than two runs, no such baseline, or an error of `evaluate`.
    """
    if is_one_run(runs) or len(runs) < 2:
        raise InputError("runs: found one; expected two or more as a dictionary name -> run")
    if not all(isinstance(name, str) for name in runs):
        raise InputError(f"runs: expected names that are texts; found {list(runs)!r}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed: expected a whole number from 0; found {seed!r}")
    base = next(iter(runs)) if baseline is None else baseline
    if base not in runs:
        named = ", ".join(map(str, runs))
        raise InputError(f"baseline: expected one of the runs, {named}; found {base!r}")
    from raypipe.evaluation.compare import compare as compared

    tables, judged, names = named_runs(runs), qrels_of(qrels), _names(measures)
    _note_ties(runs, tables)
    return compared(tables, judged, names, baseline=base, seed=seed)


def _note_ties(runs: Mapping[str, Run], tables: Mapping[str, pa.Table]) -> None:
    """A note on each file with ties; a table or a dictionary is read by no other tool."""
    from raypipe.evaluation.ties import note_ties, ties_of

    for name, run in runs.items():
        if isinstance(run, str | Path):
            note_ties(run, [ties_of(tables[str(name)])])


def _path(given: object) -> Path:
    if not isinstance(given, str | Path):
        raise InputError(f"path: expected the path of a run file; found {given!r}")
    return Path(given)


def _form_of(path: Path) -> str:
    name = path.with_suffix("") if path.suffix in COMPRESSED else path
    form = ENDINGS.get(name.suffix)
    if form is None or (form == "parquet" and name != path):
        raise InputError(
            f"{path}: expected a name that ends in {', '.join(ENDINGS)} (of the texts also "
            f'{", ".join(COMPRESSED)}), or form="trec", "msmarco" or "parquet"'
        )
    return form


def _weights(given: object) -> list[float]:
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InputError(f"weights: expected a list of numbers, one per run; found {given!r}")
    return [number_of(f"weights: number {i}", weight) for i, weight in enumerate(given, start=1)]


def _names(measures: Measures) -> list[str]:
    if isinstance(measures, str):
        measures = measures.replace(",", " ").split()
    names = list(measures) if isinstance(measures, Iterable) else [measures]
    if not all(isinstance(name, str) for name in names):
        raise InputError(
            f"measures: expected a list such as ['nDCG@10', 'AP'], or a text; found {measures!r}"
        )
    return list(dict.fromkeys(names))
