"""Fuses run files, or cuts one, without a collection: sorted ids take the place of rows."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc

from raypipe.errors import InputError
from raypipe.evaluation.exports import write_trec
from raypipe.evaluation.run_files.runs import read_run
from raypipe.ranking.by_id import fuse_by_id
from raypipe.regular import check_folder, check_regular
from raypipe.vocabulary import BreakTies

TAG = "fused"


def fuse_files(
    runs: Sequence[Path],
    *,
    method: str | None,
    depth: int,
    out: Path,
    weights: Sequence[float] | None = None,
    k: float | None = None,
    break_ties: BreakTies = "id",
) -> dict[str, int]:
    """The numbers of queries and lines; writes fused.trec into the folder.

    Ties are ordered by ascending passage id, as strings, since there is no collection with rows.
    One run is cut: it keeps the order that `read_run` gives it.
    The settings and errors are those of `fuse_tables`. Other errors are a file in the place of the
    folder, and a `fused.trec` in it that is one of the runs, or is of the user's own making.
    """
    check_folder(out, "--out ")
    _refuse_standing(out / "fused.trec", runs)
    read = [read_run(path, break_ties=break_ties) for path in runs]
    names = list(map(str, runs))
    fused = fuse_by_id(read, method=method, weights=weights, k=k, depth=depth, names=names)
    out.mkdir(parents=True, exist_ok=True)
    write_trec(fused, out / "fused.trec", tag=TAG)
    return {"queries": len(pc.unique(fused["query_id"])), "lines": fused.num_rows}


def _refuse_standing(target: Path, runs: Sequence[Path]) -> None:
    """Returns nothing if the target is not there, or an earlier `raypipe fuse` wrote it.

    Raises:
        InputError: writing it would put an end to one of the runs, or to a file of the user's own;
            or it is no file.
    """
    if not target.exists():
        return
    check_regular(target, "a file or nothing")  # a pipe would wait for ever
    if any(target.samefile(run) for run in runs):
        raise InputError(
            f"{target}: it is one of --runs, and would be written over; name another --out"
        )
    with target.open("rb") as file:
        first = file.readline(4096).split()
    if first and first[-1] != TAG.encode():
        raise InputError(
            f"{target}: it is there, and not from `raypipe fuse`; move it, or name another --out"
        )
