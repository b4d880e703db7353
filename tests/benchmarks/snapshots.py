"""What three growing snapshots cost, one after the other, beside the last one from nothing.

    python tests/benchmarks/snapshots.py [--passages 12000] [--words 25]

The papers are made up. Each snapshot has 15% new ones and lacks 2% of those before it. MiniLM and
BM25 rank them in this process with one thread, so that its CPU time is that of all stages, Java's
included. Runs and vectors of the last snapshot are compared byte for byte.
"""

import argparse
import gzip
import json
import random
import sys
import tempfile
from pathlib import Path

from reindex import MODEL, Clock, cpu_seconds

from raypipe.config.load import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.snapshots import reindex_snapshots, run_of, snapshots_of

RECIPE = """
format: 1
name: snapshots
collection:
  format: jsonl
  fields: {{id: id, title: title, body: abstract}}
  input: documents
  snapshots: {folder}
queries: {{test: {{file: queries.txt}}}}
models: {{minilm: {{path: minilm}}}}
stages:
  lucene: {{do: index}}
  embeddings: {{do: encode, model: minilm}}
  bm25: {{do: search, index: lucene, depth: 100}}
  dense: {{do: search, index: embeddings, depth: 100}}
resources: {{backend: inline, device: cpu, threads: 1}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=12_000)
    parser.add_argument("--words", type=int, default=25)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        sizes = write_snapshots(folder / "snapshots", options.passages, options.words)
        recipe = load_recipe(RECIPE.format(folder=folder / "snapshots"), source="snapshots")
        print(f"passages: {sizes}", flush=True)
        last = snapshots_of(recipe)[-1]
        alone = measured(lambda run: run(last.recipe, Options()), folder / "alone")
        work = folder / "work"
        options_of_all = Options(reindex=True)
        three = measured(
            lambda run: reindex_snapshots(recipe, work, options_of_all, run, print), work
        )
        for name in ("model", "all"):
            share = three[name] / alone[name]
            print(f"{name}: {three[name]:.1f} s of {alone[name]:.1f} s, {share:.3f} times")
        for system in ("bm25", "dense"):
            run = (folder / "alone/runs/test" / f"{system}.trec").read_bytes()
            packed = run_of(work, "test", system, last.name).read_bytes()
            assert gzip.decompress(packed) == run, system
        assert payloads(folder / "alone") == payloads(work)
        print("runs and vectors of the last snapshot: the same bytes")
    return 0


def measured(start, out: Path) -> dict[str, float]:
    """CPU seconds of what `start` runs in a workspace: of word pieces and vectors, and of all."""
    clock, seconds = Clock(), {"model": 0.0}
    began = cpu_seconds()

    def run(recipe, options):
        outcome = run_pipeline(recipe, out, options, watcher=clock)
        seconds["model"] += sum(clock.cpu.pop(store, 0.0) for store in MODEL)
        print(f"{out.name}: {cpu_seconds() - began:.1f} s of CPU", flush=True)
        return outcome

    start(run)
    return {**seconds, "all": cpu_seconds() - began}


def payloads(work: Path) -> list[str]:
    """The hashes of the payloads with the last vectors."""
    results = json.loads((work / "results.json").read_text())
    place = work / "stores/embeddings" / results["stages"]["embeddings"]["fingerprint"]
    body = json.loads((place / "manifest.json").read_text())["body"]
    return [record["sha256"] for record in body["records"]]


def write_snapshots(folder: Path, num_passages: int, num_words: int) -> list[int]:
    """The number of papers in each of the three snapshots that are written."""
    draw = random.Random(5)
    words = ["".join(draw.choices("aeioulmnrst", k=draw.randint(3, 8))) for _ in range(5000)]
    papers, sizes = dict[int, str](), []
    for snapshot in range(3):
        new = num_passages if not snapshot else round(0.15 * len(papers))
        for gone in draw.sample([*papers], round(0.02 * len(papers))):
            del papers[gone]
        first = max(papers, default=-1) + 1
        for number in range(first, first + new):
            text = draw.choices(words, k=num_words)
            paper = {"id": str(number), "title": " ".join(text[:5]), "abstract": " ".join(text[5:])}
            papers[number] = json.dumps(paper) + "\n"
        place = folder / f"{snapshot + 1}"
        (place / "documents").mkdir(parents=True)
        (place / "documents" / "papers.jsonl").write_text("".join(papers.values()))
        queries = (f"{n}\t{' '.join(draw.choices(words, k=3))}\n" for n in range(50))
        (place / "queries.txt").write_text("".join(queries))
        sizes.append(len(papers))
    return sizes


if __name__ == "__main__":
    sys.exit(main())
