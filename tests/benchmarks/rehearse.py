"""Every stage of the MS MARCO recipes over 8,841,823 made-up passages, with random models.

    python tests/benchmarks/rehearse.py --out DIR --like COLLECTION --queries FILE [--until STAGE]

README.md says what it took. Run it again to go on after --until, or after a kill. Each
group of stages is an invocation.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rehearsal.made import Size, make_inputs
from rehearsal.recipe import GROUPS
from rehearsal.told import keep, told
from rehearsal.watched import bytes_under, watch

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
    parser = argparse.ArgumentParser(description=__doc__)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
