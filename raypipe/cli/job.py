"""What `jobs/VERB.py` calls: a verb as the driver of a Ray job."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from raypipe.cli.main import main
from raypipe.errors import InputError


def run_job(verb: str, arguments: Sequence[str]) -> None:
    """Run a verb on the cluster that took the job, and exit with its code."""
    problems = [] if "--help" in arguments else job_problems(arguments, os.environ)
    if not problems:
        main([verb, *arguments])
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    print(f"raypipe: exit {InputError.exit_code} ({problems[0]})", file=sys.stderr, flush=True)
    sys.exit(InputError.exit_code)


def job_problems(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Why these arguments cannot be a job here; empty if they can."""
    problems = []
    if not environment.get("RAY_ADDRESS"):
        problems.append(
            "RAY_ADDRESS: expected the cluster that took this job, found none; submit it with "
            "`ray job submit --address ... -- python jobs/...`, or run `raypipe` for one machine"
        )
    out = _out(arguments)
    if out is None or not Path(out).is_absolute():
        found = "none" if out is None else repr(out)
        problems.append(
            f"--out: expected an absolute folder that every node mounts, found {found}; the "
            "folder a job runs in is Ray's copy and is deleted"
        )
    return problems


def _out(arguments: Sequence[str]) -> str | None:
    """The value of --out, as `--out DIR` or `--out=DIR`; the last one counts."""
    found = None
    for position, argument in enumerate(arguments):
        if argument == "--out" and position + 1 < len(arguments):
            found = arguments[position + 1]
        elif argument.startswith("--out="):
            found = argument.removeprefix("--out=")
    return found
