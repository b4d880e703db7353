"""A submission: checked completely, then written completely."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.evaluation.exports import write_msmarco, write_trec
from raypipe.leaderboard.boards import Board
from raypipe.leaderboard.fill import Filled
from raypipe.leaderboard.findings import Finding, broken, does_not_apply, holds, refuse_broken
from raypipe.leaderboard.lines import of_table
from raypipe.leaderboard.metadata import check_metadata, read_metadata
from raypipe.leaderboard.rules import check_lines
from raypipe.leaderboard.script import reciprocal_rank
from raypipe.leaderboard.side import RunSide, filled_run, rows_to_write
from raypipe.regular import check_folder
from raypipe.storage.files import appear, folder_beside, replace_file


@dataclass(frozen=True, slots=True)
class Submission:
    """The written submission."""

    folder: Path
    findings: dict[str, list[Finding]]
    """The findings by side (dev, eval) and for `submission`."""
    measure: dict[str, float]
    """The measure that the board's script will compute on dev."""


def pack(
    board: Board,
    sides: Mapping[str, RunSide],
    *,
    submission: str,
    metadata: Path | None,
    out: Path,
    fewer_rows: bool = False,
    earlier: Sequence[Path] = (),
) -> Submission:
    """Check every rule, then write the files of the submission.

    They are out/leaderboard/submissions/ID/{dev,eval}.txt.bz2 (for a TREC task .trec),
    submissions/ID-metadata.json and leaderboard/check.json.

    Raises:
        InputError: every broken rule, and nothing is written; the id exists with other files; or
            a file is in the place of the folder.
    """
    folder = out / "leaderboard" / "submissions"
    check_folder(folder, "--out ")
    body = read_metadata(metadata) if metadata is not None else {}
    findings = {"submission": check_metadata(board, submission, body, [folder, *earlier])}
    tables: dict[str, pa.Table] = {}
    measure: dict[str, float] = {}
    for name, side in sides.items():
        filled, scores, notes = filled_run(board, side)
        tables[name] = rows_to_write(filled, scores)
        queries = None if side.queries is None else [q for q, _ in read_queries(side.queries)]
        lines = replace(of_table(tables[name], side.run), form=board.form, tags=(submission,))
        findings[name] = [
            *notes,
            *check_lines(lines, board, queries=queries, query_set=name, fewer_rows=fewer_rows),
            *_measured(board, side, filled, measure),
        ]
    refuse_broken(
        [replace(f, rule=f"{name}: {f.rule}") for name, found in findings.items() for f in found]
    )
    _write(board, folder, submission, tables, body if board.metadata else None)
    check = {
        "task": board.task,
        "id": submission,
        "measure": measure,
        "rules": {name: [f.to_json() for f in found] for name, found in findings.items()},
    }
    replace_file(out / "leaderboard" / "check.json", json.dumps(check, indent=1).encode() + b"\n")
    return Submission(folder / submission, findings, measure)


def _measured(
    board: Board, side: RunSide, filled: Filled, measure: dict[str, float]
) -> list[Finding]:
    rule = "measure"
    if board.cutoff is None:
        return [does_not_apply(rule, f"{board.task} has no script of its own")]
    if side.qrels is None:
        return [does_not_apply(rule, "no qrels were named")]
    qrels = read_qrels(side.qrels)
    value, num = reciprocal_rank(filled.rankings, qrels, cutoff=board.cutoff)
    if not set(qrels["query_id"].to_pylist()) & set(filled.rankings):
        return [broken(rule, f"{side.qrels} judges no query of the run")]
    measure[f"MRR @{board.cutoff}"] = value
    return [holds(rule, f"MRR @{board.cutoff}: {value!r} over {num:,} queries of the qrels")]


def _write(
    board: Board,
    folder: Path,
    submission: str,
    tables: Mapping[str, pa.Table],
    metadata: Mapping[str, Any] | None,
) -> None:
    """Write everything under another name first; the folder of the id appears complete."""
    target, metadata_file = folder / submission, folder / f"{submission}-metadata.json"
    with folder_beside(target) as beside:
        for name, table in tables.items():
            if board.form == "trec":
                write_trec(table, beside / f"{name}.trec", tag=submission)
            else:
                write_msmarco(table, beside / f"{name}.txt.bz2")
        text = json.dumps(dict(metadata or {}), indent=2, ensure_ascii=False) + "\n"
        if (
            metadata_file.exists()
            and metadata is not None
            and metadata_file.read_bytes() != text.encode()
        ):
            raise InputError(
                f"{metadata_file}: it exists with other metadata; give a new id, or remove it"
            )
        if target.exists():
            _refuse_other_bytes(target, beside)
        else:
            appear(beside, target)
        if metadata is not None:
            replace_file(metadata_file, text.encode())


def _refuse_other_bytes(standing: Path, new: Path) -> None:
    before = {path.name: path.read_bytes() for path in standing.iterdir()}
    after = {path.name: path.read_bytes() for path in new.iterdir()}
    if before != after:
        raise InputError(
            f"{standing}: a submission of this id exists with other runs; give a new id, or "
            "remove that folder if it was never submitted"
        )
