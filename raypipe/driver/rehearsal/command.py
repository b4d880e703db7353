"""`jobs/rehearsal.py`: makes the inputs, runs a group of stages an invocation, prints figures."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from raypipe.driver.rehearsal.made import Size, make_inputs
from raypipe.driver.rehearsal.recipe import GROUPS
from raypipe.driver.rehearsal.told import keep, told
from raypipe.driver.rehearsal.watched import bytes_under, watch
from raypipe.errors import InputError

LAST = "all"
"""The name of the last group: the aggregations, and the measures of every run."""


def main(arguments: Sequence[str]) -> int:
    """The exit code of the first invocation that failed, or 0; prints the figures of all so far.

    That of an invocation that a signal ended is 128 more than the signal, as in a shell.
    """
    options = _options(arguments)
    size = Size(options.passages, options.queries_at_most, options.eval_queries, options.seed)
    try:
        recipe = make_inputs(options.out, options.like, options.queries, size)
    except InputError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return error.exit_code
    workspace = options.out / "workspace"
    code, groups = 0, (*GROUPS, LAST)
    for group in groups:
        until = [] if group == LAST else ["--until", group]
        command = [sys.executable, "-m", "raypipe", "pipeline", str(recipe), "--out"]
        watched = watch([*command, str(workspace), *until, *options.settings])
        code = watched.exit_code if watched.exit_code >= 0 else 128 - watched.exit_code
        keep(options.out, group, watched, bytes_under(workspace))
        if code or group == options.until:
            break
    print(told(options.out, size, groups))
    return code


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="jobs/rehearsal.py", description=__doc__)
    size = Size()
    parser.add_argument("--out", type=Path, required=True, help="inputs, workspace and figures")
    parser.add_argument(
        "--like", type=Path, required=True, help="a collection, id TAB text: its words are used"
    )
    parser.add_argument("--queries", type=Path, required=True, help="MS MARCO's dev queries")
    parser.add_argument("--passages", type=_count, default=size.passages)
    parser.add_argument("--queries-at-most", type=_count, default=size.queries)
    parser.add_argument("--eval-queries", type=int, default=0, help="made-up ones, to pack")
    parser.add_argument("--seed", type=int, default=size.seed)
    parser.add_argument("--until", choices=GROUPS, help="stop here; run again to go on")
    parser.add_argument("settings", nargs="*", metavar="key=value", help="of the recipe")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, found {text}")
    return number
