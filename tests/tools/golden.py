"""Whether two commits give the same results: every file byte for byte, measured times left out.

    RAYPIPE_DATA=... python tests/tools/golden.py BEFORE [AFTER] [--keep DIR]
        [--case small ...] [--adopt]

AFTER is this checkout unless a commit is named. Each commit's files are taken out of git and run on
this machine; what was printed and written is copied to one folder a case, and the folders are
compared. Both run the recipes of BEFORE. With --keep the results of a commit are kept there and
used again; --adopt also runs AFTER over the stores of BEFORE, and nothing may be computed again.
Of all cases a commit takes about half an hour on two cores, `small` alone three minutes.
"""

import argparse
import csv
import fnmatch
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "tests" / "tools" / "golden"
REAL = {
    "nfcorpus": "jobs/configs",
    "msmarco-v2-dl21": "jobs/configs",
    "car-test200": "jobs/configs",
    "medquad-documents": "docs/experiments",
}
"""Recipes over real collections and their folders, in the commit whose recipes both run."""
CASES = ("small", "quickstart", "wikiqa", *REAL)
TRAININGS = ("encoder", "mono", "duo", "documents", "pretraining")
LEFT = {"small/out/analysis/movers.*": "analyse movers"}
"""Files that are not compared, as patterns of `CASE/FILE`, each with what was taken out."""
TIMES = re.compile(r"seconds|ms_per_query|ms/query.*|query_ms|milliseconds a query")
"""Columns of tables, keys of JSON and axes of charts whose values are measured."""
INVOCATION = ("when", "started", "run")


def main(arguments: list[str] | None = None) -> int:
    """Run what is missing, compare; the exit is 1 where anything differs."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        keep = (options.keep or Path(scratch)).absolute()
        before = Commit(options.before, keep)
        after = Commit(options.after, keep)
        problems = []
        for case in options.case:
            for commit in (before, after):
                commit.run(case, before.code)
            problems += differences(before.results(case), after.results(case))
            if options.adopt:
                problems += adopted(case, before, after)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} differences over {', '.join(options.case)}")
    return 1 if problems else 0


@dataclass
class Commit:
    """A commit (None: this checkout) with its files under `keep`."""

    name: str | None
    keep: Path

    def __post_init__(self) -> None:
        self.label = "checkout" if self.name is None else _git("rev-parse", "--short", self.name)
        self.code = ROOT if self.name is None else self.keep / "code" / self.label
        if not self.code.is_dir():
            self.code.mkdir(parents=True)
            git = ["git", "-C", str(ROOT), "archive", self.name or ""]
            archive = subprocess.run(git, check=True, stdout=subprocess.PIPE)
            with tempfile.TemporaryFile() as file:
                file.write(archive.stdout)
                file.seek(0)
                with tarfile.open(fileobj=file) as tar:
                    tar.extractall(self.code, filter="data")

    def folder(self, case: str) -> Path:
        """Where the case's commands run."""
        return self.keep / "work" / self.label / case

    def results(self, case: str) -> Path:
        """What is compared."""
        return self.keep / "results" / self.label / case

    def run(self, case: str, code: Path) -> None:
        """Make the results of a case by the recipe in `code`, unless they are there."""
        if self.name is not None and self.results(case).is_dir():
            return
        folder = self.folder(case)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory(dir=self.keep) as scratch:
            results = Path(scratch) / "results"
            results.mkdir()
            if case == "small":
                self._small(folder, results)
            else:
                out = folder / "out"
                verb = ["pipeline", str(recipe_of(case, code))]
                verb = ["quickstart"] if case == "quickstart" else verb
                ends = self.raypipe(verb, folder, out).splitlines()[-1]
                if ends != "exit 0":  # two that failed alike would have no difference
                    raise SystemExit(f"{self.label}: {case}: {ends}; see {folder / 'log.txt'}")
                workspace_results(out, results / "out")
            shutil.rmtree(self.results(case), ignore_errors=True)
            self.results(case).parent.mkdir(parents=True, exist_ok=True)
            results.rename(self.results(case))

    def raypipe(self, arguments: list[str], folder: Path, out: Path | None, **more: str) -> str:
        """What a command prints, without the folder's path, and its exit status as last line."""
        command = [sys.executable, "-m", "raypipe", *arguments]
        command += ["--out", str(out)] if out else []
        print(f"{self.label}: raypipe {' '.join(command[3:])}", flush=True)
        environment = {**os.environ, "PYTHONPATH": str(self.code), "GOLDEN": str(folder), **more}
        with open(folder / "log.txt", "a") as log:
            done = subprocess.run(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return done.stdout.replace(str(folder), ".") + f"exit {done.returncode}\n"

    def _small(self, folder: Path, results: Path) -> None:
        """A small collection through every kind of stage, every training and most commands."""
        write_small(folder)
        said = {}

        def ran(name: str, *arguments: str, out: str | None = None) -> None:
            said[name] = self.raypipe([*arguments], folder, folder / out if out else None)

        ran("pipeline", "pipeline", str(RECIPES / "small.yaml"), out="out")
        shutil.copytree(folder / "out" / "runs", folder / "runs")
        ran("documents", "pipeline", str(RECIPES / "of-documents.yaml"), out="documents")
        for kind in TRAININGS:
            ran(f"train-{kind}", "train", str(RECIPES / f"{kind}.yaml"), out=f"trained-{kind}")
            for file in (folder / f"trained-{kind}").rglob("*.safetensors"):
                if "models" in file.parts:
                    name = f"models/{file.relative_to(folder)}"
                    said[name] = hashlib.sha256(file.read_bytes()).hexdigest()
        run, qrels = "runs/test/mono.trec", "qrels.test.txt"
        ran("evaluate", "evaluate", run, "--qrels", qrels)
        ran("compare", "compare", "runs/test/bm25.trec", run, "--qrels", qrels)
        for form in ("md", "csv", "latex", "json"):
            ran(f"table-{form}", "table", "out", "--format", form)
        for kind in ("depth", "tradeoff", "fusion", "queries"):
            ran(f"analyse-{kind}", "analyse", kind, "out")
        ran("consistency", "analyse", "consistency", "out", "--reference", "dense")
        query = (folder / "queries.test.tsv").read_text().partition("\t")[0]
        ran("show", "show", "out", "--query", query)
        ran("report", "report", "out")
        ran("check", "leaderboard", "check", run, "--task", "local", "--qrels", qrels)
        ran("template", "leaderboard", "template", "--task", "msmarco-passage")
        for form in ("numpy", "parquet"):
            ran(f"export-{form}", "export", "out/stores/embeddings", "--to", form, out=form)
        ran("verify", "verify", "out")
        ran("missing", "pipeline", "none.yaml", out="none")
        ran("frozen", "pipeline", str(RECIPES / "small.yaml"), "stages.mono.k0=10", "--frozen",
            out="out")  # fmt: skip
        verbs = [line.split()[1] for line in self.raypipe(["--help"], folder, None).splitlines()
                 if re.match(r"│ [a-z]", line)]  # fmt: skip
        for verb in verbs:
            said[f"help-{verb}"] = self.raypipe([verb, "--help"], folder, None, COLUMNS="100")
        names = [sys.executable, "-c", "import raypipe; print(*sorted(raypipe.__all__), sep='\\n')"]
        environment = {**os.environ, "PYTHONPATH": str(self.code)}
        done = subprocess.run(names, env=environment, capture_output=True, text=True, check=True)
        said["names"] = done.stdout
        for name, text in said.items():
            (results / "said" / f"{name}.txt").parent.mkdir(parents=True, exist_ok=True)
            (results / "said" / f"{name}.txt").write_text(timeless(text))
        for workspace in ("out", "documents"):
            workspace_results(folder / workspace, results / workspace)
        for form in ("numpy", "parquet"):
            shutil.copytree(folder / form, results / form)


def recipe_of(case: str, code: Path) -> Path:
    """The file of a case's recipe: a real collection's in a commit's code, the others here."""
    return (code / REAL[case] if case in REAL else RECIPES) / f"{case}.yaml"


def write_small(folder: Path) -> None:
    """A few hundred passages of MedQuAD with their documents, questions and judgements."""
    source = Path(os.environ["RAYPIPE_DATA"]) / "medquad-liveqa"

    def lines(name: str) -> list[str]:
        with gzip.open(source / name, "rt", encoding="utf-8") as file:
            return [line for line in file if "CancerGov" in line.split("\t")[0] + line[:120]]

    passages = lines("collection.tsv.gz")[:300]
    ids = {line.split("\t")[0] for line in passages}
    (folder / "passages.tsv").write_text("".join(passages))
    homes = {name.rpartition("_")[0] for name in ids}
    documents = [d for d in lines("docs.jsonl.gz") if json.loads(d)["docid"] in homes]
    (folder / "documents.jsonl").write_text("".join(documents))
    judged = [line.split() for line in lines("train.qrels.txt.gz")]
    judged = [(query, name) for query, _, name, _ in judged if name in ids][:60]
    with gzip.open(source / "train.queries.tsv.gz", "rt", encoding="utf-8") as file:
        texts = dict(line.rstrip("\n").split("\t") for line in file)
    for number, split in enumerate(("train", "dev", "test")):
        own = judged[number * 20 : number * 20 + 20]
        for name, form in (("queries", "{query}\t{text}\n"), ("qrels", "{query} 0 {passage} 1\n"),
                           ("document-qrels", "{query} 0 {document} 1\n")):  # fmt: skip
            rows = [
                form.format(query=q, text=texts[q], passage=p, document=p.rpartition("_")[0])
                for q, p in own
            ]
            ending = "tsv" if name == "queries" else "txt"
            (folder / f"{name}.{split}.{ending}").write_text("".join(dict.fromkeys(rows)))


def workspace_results(workspace: Path, to: Path) -> None:
    """Copy runs, measures, tables and JSON of a workspace without measured times."""
    for path in sorted(workspace.rglob("*")):
        name = path.relative_to(workspace)
        part = name.parts[0]
        if path.is_dir() or (part == "runs" and path.suffix == ".tsv"):  # the same as its .trec
            continue
        if part in ("runs", "measures"):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to / name)
        elif part in ("analysis", "table.md", "summary.json"):
            if name.stem.partition(".")[0] in ("making", "forecast"):  # seconds and sizes alone
                continue
            text = path.read_text()
            if part == "summary.json":
                body = json.loads(text)
                keys = ("status", "exit", "systems", "measures")
                text = json.dumps({key: body.get(key) for key in keys})
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_text(timeless(text.replace(str(workspace.parent), ".")))


def timeless(text: str) -> str:
    """A text without measured times: JSON, CSV, or with tables in Markdown or LaTeX."""
    if text.startswith("{"):
        body, end = json.JSONDecoder().raw_decode(text)
        return json.dumps(_timeless_json(body), indent=1, sort_keys=True) + text[end:]
    if text.startswith("query_set,"):
        body, _, end = text.rpartition("exit ")
        rows = list(csv.reader(body.splitlines()))
        return "\n".join(map(repr, _timeless_rows(rows))) + f"\nexit {end}"
    lines: list[str] = []
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        mark = "|" if line.startswith("|") else " & "
        if mark in line:
            row = [cell.strip(" \\") for cell in line.strip("|").split(mark)]
            if not re.fullmatch("-*", "".join(row)):
                table.append(row)
        elif "rule" not in line:  # LaTeX's rules stand between the rows of a table
            lines += [" | ".join(row) for row in _timeless_rows(table)] + [line]
            table = []
    return "\n".join(lines)


def _timeless_rows(rows: list[list[str]]) -> list[list[str]]:
    timed = {n for n, name in enumerate(rows[0]) if TIMES.fullmatch(name)} if rows else set()
    return [[cell for n, cell in enumerate(row) if n not in timed] for row in rows]


def _timeless_json(body: Any) -> Any:
    if isinstance(body, list):
        return [_timeless_json(value) for value in body]
    if not isinstance(body, dict):
        return body
    if "columns" in body and "rows" in body:
        columns, *rows = _timeless_rows([body["columns"], *body["rows"]])
        body = body | {"columns": columns, "rows": rows}
    if TIMES.fullmatch(str(body.get("x"))):
        body = {key: value for key, value in body.items() if key != "lines"}
    return {
        key: _timeless_json(v)
        for key, v in body.items()
        if key not in INVOCATION and not TIMES.fullmatch(key)
    }


def differences(before: Path, after: Path) -> list[str]:
    """Every file that is not in both folders with the same bytes, but for those in `LEFT`."""
    names = {p.relative_to(w) for w in (before, after) for p in w.rglob("*") if p.is_file()}
    problems = [] if names else [f"{before.name}: no results"]
    for name in sorted(names):
        where = f"{before.name}/{name}"
        if any(fnmatch.fnmatch(where, pattern) for pattern in LEFT):
            continue
        one, other = before / name, after / name
        if not (one.exists() and other.exists()):
            problems.append(f"{where}: only {'before' if one.exists() else 'after'}")
        elif one.read_bytes() != other.read_bytes():
            problems.append(f"{where}: not the same")
    return problems


def adopted(case: str, before: Commit, after: Commit) -> list[str]:
    """The stages that AFTER computes again over a copy of the stores of BEFORE."""
    if case == "quickstart":
        return []
    folder = after.folder(case) / "adopting"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(before.folder(case) / "out" / "stores", folder / "stores")
    recipe = recipe_of(case, before.code)
    stores = f"stores={folder / 'stores'}"
    inputs = before.folder(case)
    after.raypipe(["pipeline", str(recipe), stores], inputs, folder / "out")
    stages = json.loads((folder / "out" / "summary.json").read_text())["stages"]
    return [
        f"{case}: {name} was computed again"
        for name, stage in stages.items()
        if not stage["reused"] and stage.get("rows")
    ]


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after", nargs="?")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--adopt", action="store_true", help="run AFTER over BEFORE's stores")
    options = parser.parse_args(arguments)
    options.case = options.case or CASES
    return options


if __name__ == "__main__":
    sys.exit(main())
