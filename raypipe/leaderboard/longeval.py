"""LongEval's hand-in: a folder with SNAPSHOT/run.txt.gz for each snapshot, and one ir-metadata.yml.

Source: the check of its organisers, tira.check_format.LongEvalLags (PyPI: tira 0.0.207), and their
submission guide (github.com/clef-longeval/longeval-code).
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from raypipe.data.files import natural_key
from raypipe.errors import InputError
from raypipe.evaluation.exports import write_trec
from raypipe.leaderboard.boards import BOARDS
from raypipe.leaderboard.rules import (
    Finding,
    broken,
    holds,
    read_run_lines,
    refuse_broken,
    with_names,
)
from raypipe.leaderboard.submission import (
    RunSide,
    Submission,
    Verdict,
    appear_once,
    check_tag,
    rows_to_write,
    verdict,
    write_check,
)
from raypipe.regular import check_folder
from raypipe.storage.files import folder_beside, replace_file
from raypipe.storage.records import digest
from raypipe.vocabulary import BreakTies

TASK, METADATA = "longeval", "ir-metadata.yml"
RUNS = ("run.txt.gz", "run.txt")
MISSING = "ENTER_VALUE_HERE"
"""Stands in the metadata for what a user has to say, and is refused."""
REQUIRED: Mapping[str, type] = {
    "tag": str,
    "actor.team": str,
    "research goal.description": str,
    "platform.software.libraries": list,
    "implementation.source.repository": str,
    "data.training data.name": str,
    "method.automatic": bool,
    "method.indexing.tokenizer": str,
    "method.indexing.stemmer": str,
    "method.indexing.stopwords": str,
    "method.retrieval.name": str,
    "method.retrieval.lexical": bool,
    "method.retrieval.deep_neural_model": bool,
    "method.retrieval.sparse_neural_model": bool,
    "method.retrieval.single_stage_retrieval": bool,
}
"""The fields that the organisers ask for, and their types."""
_WORDS = {str: "a text", list: "a list", bool: "true or false"}
LEAST_QUERIES, LEAST_LINES, MOST_BYTES = 3, 5, 250 << 20
"""A run with fewer of either, or a larger file, is refused by the organisers' check."""


def check(
    folder: Path, metadata: Path | None = None, *, break_ties: BreakTies = "id"
) -> dict[str, list[Finding]]:
    """The findings about the runs of each snapshot, by its name, and about `ir-metadata`.

    Args:
        folder: the hand-in; its own ir-metadata.yml counts if `metadata` is None.
        metadata: another file in its place.
        break_ties: see `read_run`.

    Raises:
        InputError: no folder with runs, or a file that is not a run.
    """
    runs = runs_in(folder)
    own = [_metadata(folder / METADATA if metadata is None else metadata)]
    findings = {name: _checked(run, break_ties).findings for name, run in runs.items()}
    return {"ir-metadata": own, **findings}


def runs_in(folder: Path) -> dict[str, Path]:
    """Snapshot -> its run, in the natural order of the snapshots' names.

    Raises:
        InputError: no run, or a snapshot with two.
    """
    expected = f"{folder}: expected a folder with SNAPSHOT/run.txt.gz"
    if not folder.is_dir():
        raise InputError(f"{expected}, found no folder")
    runs, twice = dict[str, Path](), list[str]()
    for inside in sorted(filter(Path.is_dir, folder.iterdir()), key=natural_key):
        there = [inside / name for name in RUNS if (inside / name).is_file()]
        if len(there) > 1:
            twice.append(f"{inside}: expected one run, found {' and '.join(RUNS)}")
        if there:
            runs[inside.name] = there[0]
    if twice or not runs:
        raise InputError(twice or f"{expected}, found none")
    return runs


def _checked(run: Path, break_ties: BreakTies) -> Verdict:
    whole = verdict(BOARDS[TASK], RunSide(run=run, break_ties=break_ties))
    return replace(whole, findings=[*whole.findings, _size(run)])


def _size(run: Path) -> Finding:
    """Checks what the organisers' check says of the size of a run."""
    rule = "size"
    lines = read_run_lines(run)
    num_queries, num_lines = len(lines.query_ids), len(lines.rank)
    if num_queries < LEAST_QUERIES or num_lines < LEAST_LINES:
        detail = (
            f"expected {LEAST_QUERIES} queries and {LEAST_LINES} lines or more, found "
            f"{num_queries} and {num_lines}, which the organisers take for a mistake"
        )
        return broken(rule, detail)
    if (num_bytes := run.stat().st_size) > MOST_BYTES:
        detail = f"expected at most {MOST_BYTES:,} bytes, found {num_bytes:,}; keep fewer passages"
        return broken(rule, detail)
    deepest = int(np.bincount(lines.queries.codes).max())
    return holds(rule, f"{num_queries:,} queries, at most {deepest:,} lines each")


def _metadata(path: Path) -> Finding:
    rule = "fields"
    try:
        body = read_metadata(path)
    except InputError as error:
        return broken(rule, str(error))
    problems = metadata_problems(body)
    if problems:
        return broken(rule, f"{path}: {'; '.join(problems)}")
    return holds(rule, f"{path.name}: all {len(REQUIRED)} that the organisers ask for")


def read_metadata(path: Path) -> dict[str, Any]:
    """The content of an ir-metadata.yml.

    Raises:
        InputError: no such file, or no YAML with keys.
    """
    command = f"`raypipe leaderboard template --task {TASK} WORKSPACE` prints what is known"
    try:
        body = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: not there; {command}") from None
    except (OSError, yaml.YAMLError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path}: expected YAML; {first}") from None
    if not isinstance(body, dict):
        raise InputError(f"{path}: expected keys such as actor and method; {command}")
    return body


def metadata_problems(body: Mapping[str, Any]) -> list[str]:
    """Every required field that is missing, still to be filled in, or of another type."""
    problems = []
    for key, kind in REQUIRED.items():
        for value in _values(body, key.split(".")) or [None]:
            if value is None or value == "" or (isinstance(value, str) and MISSING in value):
                problems.append(f"{key} is missing")
            elif not isinstance(value, kind):
                problems.append(f"{key}: expected {_WORDS[kind]}, found {value!r}")
    return problems


def _values(body: Any, keys: Sequence[str]) -> list[Any]:
    """The values at the keys; where a list is on the way, of each of its items."""
    if not keys:
        return [body]
    parts = body if isinstance(body, list) else [body]
    of_parts = (
        _values(part[keys[0]], keys[1:]) if isinstance(part, dict) and keys[0] in part else [None]
        for part in parts
    )
    return [value for values in of_parts for value in values]


def pack(
    folder: Path,
    *,
    submission: str,
    metadata: Path | None,
    out: Path,
    break_ties: BreakTies = "id",
) -> Submission:
    """Check every rule, then write the hand-in with the submission's id as the tag of each run.

    It is out/leaderboard/submissions/ID with SNAPSHOT/run.txt.gz and ir-metadata.yml, beside
    leaderboard/check.json.

    Raises:
        InputError: every broken rule, and nothing is written; or the id exists with other files.
    """
    target = out / "leaderboard" / "submissions" / submission
    check_folder(target.parent, "--out ")
    source = folder / METADATA if metadata is None else metadata
    verdicts = {name: _checked(run, break_ties) for name, run in runs_in(folder).items()}
    findings = {
        "submission": [check_tag(submission, BOARDS["longeval"])],
        "ir-metadata": [_metadata(source)],
    }
    findings |= {name: of_run.findings for name, of_run in verdicts.items()}
    refuse_broken(with_names(findings))
    body = {**read_metadata(source), "tag": submission}
    with folder_beside(target) as beside:
        for name, of_run in verdicts.items():
            assert of_run.filled is not None
            (beside / name).mkdir()
            table = rows_to_write(of_run.filled, of_run.scores)
            write_trec(table, beside / name / RUNS[0], tag=submission)
        (beside / METADATA).write_text(metadata_text(body), encoding="utf-8")
        appear_once(beside, target)
    packed = Submission(target, findings, {})
    write_check(out, TASK, packed)
    return packed


def metadata_text(body: Mapping[str, Any]) -> str:
    """The metadata as YAML, its keys in order."""
    return yaml.safe_dump(dict(body), sort_keys=False, allow_unicode=True, width=100)


_DRAFT = re.compile(r"# Drafted by raypipe, ([0-9a-f]{16})\. Once edited, it stays as it is\.\n")


def write_draft(folder: Path, body: Mapping[str, Any]) -> bool:
    """Write ir-metadata.yml; False, and nothing is written, where a user has edited it."""
    path, text = folder / METADATA, metadata_text(body)
    if os.path.lexists(path):
        standing = path.read_text(encoding="utf-8")
        mark = _DRAFT.match(standing)
        if mark is None or mark[1] != digest(standing[mark.end() :].encode())[:16]:
            return False
    first = f"# Drafted by raypipe, {digest(text.encode())[:16]}. Once edited, it stays as it is.\n"
    replace_file(path, (first + text).encode())
    return True
