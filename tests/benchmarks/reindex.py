"""What a changed collection costs: CPU time and written bytes beside a build from nothing.

    RAYPIPE_DATA=... python tests/benchmarks/reindex.py [--passages 51126] [--out FILE]

The passages are those of TREC Deep Learning 2021 and MedQuAD, the model is the packaged MiniLM, and
everything runs in this process, so that its CPU time is that of all stages, Java's threads
included, and Ray's start is not in it. Each change is made to the same finished workspace.
"""

import argparse
import gzip
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from raypipe.config.load import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline

RECIPE = """
format: 1
name: reindex
collection: {{format: msmarco-v1, input: {folder}/collection.tsv}}
queries: {{test: {{file: {data}/msmarco-v2-dl21/queries.dl21.tsv}}}}
models: {{minilm: {{path: minilm}}}}
stages:
  lucene: {{do: index}}
  embeddings: {{do: encode, model: minilm}}
  bm25: {{do: search, index: lucene, bm25: {{k1: 0.9, b: 0.4}}, depth: 100}}
  dense: {{do: search, index: embeddings, depth: 100}}
resources: {{backend: inline, device: cpu, threads: {threads}}}
"""
Passages = list[tuple[str, str]]
MODEL = ("tokens@minilm", "embeddings")


class Clock:
    """CPU seconds of this process by store."""

    def __init__(self) -> None:
        self.cpu: dict[str, float] = {}
        self._last = cpu_seconds()

    def expects(self, num_stages): ...

    def began(self, name, report): ...

    def advanced(self, name, report): ...

    def ended(self, name, result):
        now = cpu_seconds()
        self.cpu[str(name)] = now - self._last
        self._last = now


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def main() -> int:
    options = _options()
    passages = _passages(options.data, options.passages)
    changes: dict[str, Callable[[Passages], Passages]] = {
        "nothing": lambda old: old,
        "0.1% at random": lambda old: changed(old, 0.001),
        "1% at random, one inserted at the top": lambda old: [
            ("new", word(0)),
            *changed(old, 0.01),
        ],
        "1% in one stretch": stretch,
        "10% at random": lambda old: changed(old, 0.1),
        "everything": lambda old: changed(old, 1.0),
    }
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        rows = [build(folder, passages, options, "from nothing")]
        shutil.move(folder / "work", folder / "base")
        for name, change in changes.items():
            shutil.copytree(folder / "base", folder / "work", copy_function=os.link)
            for file in ("refs", "lease.json"):  # what is replaced in place is not shared
                for path in (folder / "work").rglob(f"{file}*"):
                    if path.is_file():
                        data = path.read_bytes()
                        path.unlink()
                        path.write_bytes(data)
            rows.append(build(folder, change(passages), options, name))
            shutil.rmtree(folder / "work")
    print(table(rows))
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def build(folder: Path, passages: Passages, options: argparse.Namespace, name: str) -> dict:
    """One invocation: rows computed by the model, CPU seconds by store, bytes of new payloads."""
    lines = (f"{passage_id}\t{text}\n" for passage_id, text in passages)
    (folder / "collection.tsv").write_text("".join(lines))
    text = RECIPE.format(folder=folder, data=options.data, threads=options.threads)
    work, clock = folder / "work", Clock()
    before = {path.name for path in (work / "stores" / "blobs").rglob("*")}
    began = cpu_seconds()
    outcome = run_pipeline(load_recipe(text, source="reindex"), work, Options(), watcher=clock)
    stages = outcome.summary["stages"]
    computed = {
        store: 0 if stages[store]["reused"] else stages[store]["rows"] - stages[store]["copied"]
        for store in MODEL
    }
    row = {
        "change": name,
        "passages": len(passages),
        "computed": computed,
        "cpu": {"all": cpu_seconds() - began, **clock.cpu},
        "written": {store: _new_bytes(work, store, stages, before) for store in MODEL},
        "bytes": {store: _new_bytes(work, store, stages, set()) for store in MODEL},
    }
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def _new_bytes(work: Path, store: str, stages: dict, before: set[str]) -> int:
    manifest = work / "stores" / store / stages[store]["fingerprint"] / "manifest.json"
    records = json.loads(manifest.read_bytes())["body"]["records"]
    sizes = {record["sha256"]: record["num_bytes"] for record in records}
    return sum(size for sha256, size in sizes.items() if sha256 not in before)


def table(rows: list[dict]) -> str:
    """The rows as Markdown, each as a share of the build from nothing."""
    full = rows[0]
    model = sum(full["cpu"][store] for store in MODEL)
    lines = [
        "| changed | rows computed | CPU of tokens and embeddings | CPU of all | Lucene's part | "
        "bytes of tokens and embeddings written |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        own = sum(row["cpu"].get(store, 0.0) for store in MODEL)
        lucene = row["cpu"].get("lucene", 0.0)
        written, whole = (sum(row[key].values()) for key in ("written", "bytes"))
        lines.append(
            f"| {row['change']} | {row['computed']['embeddings']:,} of {row['passages']:,} | "
            f"{own:.1f} s ({own / model:.1%}) | {row['cpu']['all']:.1f} s "
            f"({row['cpu']['all'] / full['cpu']['all']:.1%}) | {lucene:.1f} s | "
            f"{written / 1e6:.1f} MB ({written / whole:.1%}) |"
        )
    return "\n".join(lines)


def changed(passages: Passages, share: float) -> Passages:
    """Other texts of about the same length for a share of the passages, drawn at random."""
    drawn = set(random.Random(7).sample(range(len(passages)), round(share * len(passages))))
    return [(i, word(n) + t if n in drawn else t) for n, (i, t) in enumerate(passages)]


def stretch(passages: Passages) -> Passages:
    """Other texts for 1% of the passages in the middle."""
    first = len(passages) // 2
    inside = range(first, first + len(passages) // 100)
    return [(i, word(n) + t if n in inside else t) for n, (i, t) in enumerate(passages)]


def word(number: int) -> str:
    """The beginning of a changed text."""
    return f"revised {number} "


def _passages(data: Path, at_most: int) -> Passages:
    found: Passages = []
    for name in ("msmarco-v2-dl21", "medquad-liveqa"):
        with gzip.open(data / name / "collection.tsv.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                passage_id, text = line.rstrip("\n").split("\t", 1)
                found.append((f"{name}-{passage_id}", text))
    return list(itertools.islice(found, at_most))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=1 << 30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scratch", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.data = Path(os.environ["RAYPIPE_DATA"]).absolute()
    return options


if __name__ == "__main__":
    sys.exit(main())
