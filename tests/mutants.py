"""How many one-line changes of raypipe the tests without a mark notice.

    python tests/mutants.py --seed 1 --per-folder 10 [--folder ranking] [--json out.json]

Under pytest, `python -m pytest -m long tests/mutants.py` draws ten a folder and wants 90%.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "mutation"))

from draw import Mutant, draw  # noqa: E402
from run import Bench  # noqa: E402
from traced import Calm, relevant  # noqa: E402

FOLDERS = ("ranking", "evaluation", "text", "engines", "stages", "storage", "models", "training")
FOLDERS += ("analysis", "leaderboard", "driver", "cluster", "data", "config", "api")
TABLE = ROOT / "tests" / "mutation" / "equivalent.toml"
MARKS = ("gpu", "long", "slow", "ray", "jvm")


def main(arguments: list[str] | None = None) -> int:
    """Draw, run, report; the exit is 1 where fewer than 90% were killed."""
    options = _options(arguments)
    folders = options.folder or FOLDERS
    marks = " and ".join(f"not {mark}" for mark in MARKS if mark not in options.also)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        bench = Bench(ROOT, Path(scratch), marks, options.deselect)
        calm = calm_runs(bench, bench.files(), options.keep)
        if calm is None:
            return 2
        results = [row for folder in folders for row in run_folder(bench, folder, calm, options)]
    report(results, folders)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    counted = [row for row in results if row["result"] != "equivalent"]
    killed = sum(row["result"] == "killed" for row in counted)
    return 0 if killed >= 0.9 * len(counted) else 1


def calm_runs(bench: Bench, files: list[str], keep: Path | None) -> dict[str, Calm] | None:
    """Each test file without a mutant; None, after saying so, where one is not green."""
    calm = {}
    for file in files:
        calm[file] = bench.calm(file, keep)
        print(f"{calm[file].seconds:7.1f} s  {file}", flush=True)
        if not calm[file].green:
            print(f"{file} is not green without a mutant:\n{calm[file].said}", file=sys.stderr)
    return calm if all(found.green for found in calm.values()) else None


def run_folder(
    bench: Bench, folder: str, calm: dict[str, Calm], options: argparse.Namespace
) -> list[dict[str, object]]:
    """One row a mutant: until so many were run that are not equivalent."""
    table = tomllib.loads(TABLE.read_text())
    same = {(e["file"], e["before"], e["after"]): e["why"] for e in table.get("equivalent", [])}
    leave = frozenset(f for f, mark in table["marked"].items() if mark not in options.also)
    rows: list[dict[str, object]] = []
    num_run = 0
    for mutant in draw(ROOT, folder, options.seed, leave=leave):
        if num_run == options.per_folder:
            break
        why = same.get((mutant.file, mutant.before, mutant.after))
        why = why or same.get((mutant.file, mutant.before, "*"))
        if why is None and not bench.imports(mutant):
            continue
        start = time.monotonic()
        if why is None:
            num_run += 1
            by = _killer(bench, mutant, calm)
            result = "killed" if by else "survived"
        else:
            by, result = why, "equivalent"
        rows.append(
            {"folder": folder, "file": mutant.file, "function": mutant.function}
            | {"line": mutant.line, "before": mutant.before, "after": mutant.after}
            | {"result": result, "by": by, "seconds": round(time.monotonic() - start, 1)}
        )
        _tell(mutant, result, by)
    return rows


def report(results: list[dict[str, object]], folders: tuple[str, ...]) -> None:
    """killed/total by folder, and the equivalent ones apart."""
    for folder in [*folders, "all"]:
        rows = [row for row in results if folder in (row["folder"], "all")]
        count = {
            r: sum(row["result"] == r for row in rows) for r in ("killed", "survived", "equivalent")
        }
        total = count["killed"] + count["survived"]
        share = f"{100 * count['killed'] / total:.0f}%" if total else "-"
        print(f"{folder:12} {count['killed']}/{total} {share}  equivalent: {count['equivalent']}")


def _killer(bench: Bench, mutant: Mutant, calm: dict[str, Calm]) -> str:
    files = relevant(mutant, calm)
    return bench.kills(mutant, files, calm) if files else ""


def _tell(mutant: Mutant, result: str, by: str) -> None:
    print(f"{result:10} {mutant.file}:{mutant.line} {mutant.function}  [{by}]")
    if result != "killed":
        print(f"    - {mutant.before}\n    + {mutant.after}")
    sys.stdout.flush()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-folder", type=int, default=10)
    parser.add_argument("--folder", action="append", choices=FOLDERS)
    parser.add_argument("--json", type=Path, help="every mutant and what became of it")
    parser.add_argument("--also", action="append", default=[], choices=MARKS)
    parser.add_argument("--deselect", action="append", default=[], help="a test to leave out")
    parser.add_argument("--keep", type=Path, help="folder that keeps the calm runs")
    return parser.parse_args(arguments)


@pytest.mark.long
@pytest.mark.timeout(36_000)
def test_unmarked_tests_kill_nine_mutants_of_ten():
    done = subprocess.run([sys.executable, __file__, "--seed", "1"])  # a process without raypipe
    assert done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
