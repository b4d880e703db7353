"""Reads and writes run files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from raypipe.api.inputs import Run, run_of
from raypipe.errors import InputError
from raypipe.evaluation.exports import write_msmarco, write_trec
from raypipe.evaluation.run_files import runs
from raypipe.storage.compression import replacing_compressed

ENDINGS = {
    ".trec": "trec",
    ".run": "trec",
    ".txt": "trec",
    ".tsv": "msmarco",
    ".parquet": "parquet",
}
COMPRESSED = (".gz", ".bz2", ".zst")


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
    """The run in a file, TREC, MS MARCO, top1000 or Parquet, by its content.

    Columns query_id, passage_id, rank from 1 and score float32; the order is that of
    `raypipe.evaluation.run_files.runs.read_run`, which also names the errors.

    Raises:
        InputError: not a path, no such file, or not a run.
    """
    return runs.read_run(_path(path))


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


__all__ = ["read_run", "write_run"]
