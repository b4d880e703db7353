"""Whether two commits give the same results: runs and measures byte for byte, tables by value.

    RAYPIPE_DATA=... python tests/golden.py BEFORE [AFTER] [--keep DIR] [--recipe nfcorpus ...]

AFTER is this checkout unless a commit is named. Each commit's files are taken out of git and run on
this machine, the quickstart and the recipes over real collections (ten to twenty minutes a commit
on two cores). With --keep finished workspaces of a commit are kept there and used again.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECIPES = ("quickstart", "nfcorpus", "msmarco-v2-dl21")


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, compare; the exit is 1 where anything differs."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        keep = options.keep or Path(scratch)
        before = {r: finished(options.before, r, keep) for r in options.recipe}
        after = {r: finished(options.after, r, keep) for r in options.recipe}
        problems = [p for r in options.recipe for p in differences(before[r], after[r])]
    for problem in problems:
        print(problem)
    print(f"{len(problems)} differences over {', '.join(options.recipe)}")
    return 1 if problems else 0


def finished(commit: str | None, recipe: str, keep: Path) -> Path:
    """The workspace of a recipe as a commit (None: this checkout) makes it."""
    name = "checkout" if commit is None else _git("rev-parse", "--short", commit)
    code, out = keep / "code" / name, keep / "out" / name / recipe
    if commit is None:
        code = ROOT
    elif not code.is_dir():
        code.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit], check=True, stdout=subprocess.PIPE
        )
        with tempfile.TemporaryFile() as file:
            file.write(archive.stdout)
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                tar.extractall(code, filter="data")
    verb = ["quickstart"] if recipe == "quickstart" else ["pipeline", recipe]
    command = [sys.executable, "-m", "raypipe", *verb, "--out", str(out)]
    print(f"{name}: {' '.join(command[1:])}", flush=True)
    environment = {**os.environ, "PYTHONPATH": str(code)}
    subprocess.run(command, check=True, cwd=code, env=environment, stdout=subprocess.DEVNULL)
    return out


def differences(before: Path, after: Path) -> list[str]:
    """Every file of runs/ and measures/ that is not the same, and every cell of the tables."""
    problems = []
    for part in ("runs", "measures"):
        ending = {"runs": "*.trec", "measures": "*.tsv"}[part]  # a .tsv beside a run is the same
        names = {p.relative_to(w) for w in (before, after) for p in (w / part).rglob(ending)}
        if not names:
            problems.append(f"{before.name}: no {part}")
        for name in sorted(names):
            one, other = before / name, after / name
            if not (one.exists() and other.exists()) or one.read_bytes() != other.read_bytes():
                problems.append(f"{before.name}/{name}: not the same")
    one, other = (cells((w / "table.md").read_text()) for w in (before, after))
    changed = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
    return problems + [
        f"{before.name}: table {key}: {one.get(key)} -> {other.get(key)}" for key in changed
    ]


def cells(table: str) -> dict[tuple[int, str, str], str]:
    """The cells of Markdown tables by (table, row, column), without measured times."""
    found: dict[tuple[int, str, str], str] = {}
    header: list[str] = []
    number = -1
    for line in table.splitlines():
        row = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not row:
            header = []
        elif not header:
            header, number = row, number + 1
        elif not re.fullmatch(r"[-: ]*", "".join(row)):
            found |= {(number, row[0], c): v for c, v in zip(header, row, strict=True)}
    return {key: value for key, value in found.items() if key[2] != "ms/query"}


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after", nargs="?")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--recipe", action="append", choices=RECIPES)
    options = parser.parse_args(arguments)
    options.recipe = options.recipe or RECIPES
    return options


if __name__ == "__main__":
    sys.exit(main())
