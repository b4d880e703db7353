"""How many one-line changes of raypipe the tests notice.

    python tests/tools/mutants.py --keep DIR [--seed 1] [--number 150] [--folder ranking] [--slow]

Lines are drawn over all of raypipe, so a folder counts by its size. The first run measures which
tests reach which lines; DIR keeps that, for draws of the same tree and suite.
"""

import argparse
import json
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools" / "mutation"))

from bench import Bench  # noqa: E402
from draw import Mutant, draw  # noqa: E402

TABLE = ROOT / "tests" / "tools" / "mutation" / "equivalent.toml"
ALL = "not gpu and not long"


def main(arguments: list[str] | None = None) -> int:
    """Draw, run, report; the exit is 1 where fewer than 90% were killed."""
    options = _options(arguments)
    table = tomllib.loads(TABLE.read_text())
    same = {(e["file"], e["before"], e["after"]): e["why"] for e in table["equivalent"]}
    rows = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        bench = Bench(options.root, Path(scratch), ALL if options.slow else f"not slow and {ALL}")
        reached = bench.reached(options.keep.absolute(), options.tests, options.workers)
        bench.warm()
        for mutant in draw(options.root, options.folder, options.seed):
            why = same.get((mutant.file, mutant.before, mutant.after))
            why = why or same.get((mutant.file, mutant.before, "*"))
            if sum(row["result"] != "equivalent" for row in rows) == options.number:
                break
            if why is None and not bench.imports(mutant):
                continue
            start = time.monotonic()
            by = why or bench.kills(mutant, reached)
            result = "equivalent" if why else "killed" if by else "survived"
            rows.append({"file": mutant.file, "function": mutant.function, "line": mutant.line}
                | {"before": mutant.before, "after": mutant.after, "result": result, "by": by}
                | {"seconds": round(time.monotonic() - start, 1)})  # fmt: skip
            _print(mutant, result, by)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1))
    results = [row["result"] for row in rows]
    killed, total = results.count("killed"), len(results) - results.count("equivalent")
    print(f"{killed} of {total} killed; equivalent: {results.count('equivalent')}")
    return 0 if killed >= 0.9 * total else 1


def _print(mutant: Mutant, result: str, by: str) -> None:
    print(f"{result:10} {mutant.file}:{mutant.line} {mutant.function}  [{by}]")
    if result != "killed":
        print(f"    - {mutant.before}\n    + {mutant.after}")
    sys.stdout.flush()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, required=True, help="what the suite reaches")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=150)
    parser.add_argument("--folder", default="", help="of raypipe")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="a part of the suite")
    parser.add_argument("--slow", action="store_true", help="the slow tests too")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout, with its tests")
    parser.add_argument("--workers", type=int, default=2, help="of the run without a mutant")
    parser.add_argument("--json", type=Path, help="every mutant, and which test killed it")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
