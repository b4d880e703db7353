"""Runs read from files and written to them."""

from pathlib import Path

import pyarrow.parquet as pq

from raypipe.api.given.runs import Run, run_of
from raypipe.errors import InputError
from raypipe.evaluation.exports import write_msmarco, write_trec
from raypipe.evaluation.run_files.files import replacing_run
from raypipe.evaluation.run_files.runs import read_run

ENDINGS = {
    ".trec": "trec",
    ".run": "trec",
    ".txt": "trec",
    ".tsv": "msmarco",
    ".parquet": "parquet",
}
COMPRESSED = (".gz", ".bz2", ".zst")


def write_run(run: Run, path: str | Path, *, tag: str = "raypipe", form: str | None = None) -> None:
    """Write the run, replacing the file whole.

    trec: `query Q0 passage rank score tag`, scores lowered by the least float32 step where they
    tie, so that every evaluator sees this ranking. msmarco: `query passage rank`, to rank 1000.
    parquet: query_id, passage_id, rank and the true score.

    Args:
        run: a table, a dictionary or another file.
        path: its name says the format: .trec, .run or .txt; .tsv; .parquet. Behind the first four
            .gz, .bz2 or .zst compresses.
        tag: the system's name in a TREC file, one word.
        form: trec, msmarco or parquet, whatever the name is.

    Raises:
        InputError: no run, a name that says no format, ids or a tag that no run file can carry.
    """
    path = Path(path)
    form = _form_of(path) if form is None else form
    table = run_of(run)
    if form == "trec":
        write_trec(table, path, tag=tag)
    elif form == "msmarco":
        write_msmarco(table, path)
    elif form == "parquet":
        with replacing_run(path) as out:
            pq.write_table(table, out)
    else:
        raise InputError(f"form: expected trec, msmarco or parquet; found {form!r}")


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
