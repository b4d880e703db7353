"""Fuses run files, or cuts one, without a collection: sorted ids take the place of rows."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.compute as pc

from raypipe.evaluation.exports import write_trec
from raypipe.evaluation.run_files.runs import read_run
from raypipe.ranking.by_id import fuse_by_id
from raypipe.regular import check_folder
from raypipe.vocabulary import BreakTies


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
    See `fuse_tables` for the settings and errors; a file in the place of the folder is one too.
    """
    check_folder(out, "--out ")
    read = [read_run(path, break_ties=break_ties) for path in runs]
    fused = fuse_by_id(read, method=method, weights=weights, k=k, depth=depth)
    out.mkdir(parents=True, exist_ok=True)
    write_trec(fused, out / "fused.trec", tag="fused")
    return {"queries": len(pc.unique(fused["query_id"])), "lines": fused.num_rows}
