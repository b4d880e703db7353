"""Pyserini's own commands over the passages and queries of a workspace: the figures of its BM25.

    python tests/benchmarks/bm25_by_pyserini.py WORKSPACE...

Each workspace is that of a finished pipeline with a BM25 stage. Pyserini indexes its passages,
exported as JSON, searches for the queries of each query set with the stage's k1, b and depth, and
trec_eval measures what it wrote, its own scores and ties included, at the recipe's measures.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import ir_measures

from raypipe.cli.main import run
from raypipe.kinds.search import Bm25Search, Fixed
from raypipe.report.finished import judgements_of, measures_of, open_finished

# pyserini asks its Java for a module that small runtimes lack; a JVM that runs already it takes.
PYSERINI = """
import json, os, runpy, sys
from raypipe.engines.lucene.java import start_jvm
start_jvm()
os.environ.setdefault("OPENAI_API_KEY", "unused")
for command in json.loads(sys.argv[1]):
    sys.argv = command
    runpy.run_module(command[0], run_name="__main__")
"""


def main(folders: list[str]) -> None:
    for name in folders:
        with tempfile.TemporaryDirectory() as scratch:
            measured(Path(name), Path(scratch))


def measured(folder: Path, scratch: Path) -> None:
    finished = open_finished(folder)
    passages = folder / "stores" / "passages@collection"
    out = scratch / "input"
    code, reason = run(["export", str(passages), "--to", "pyserini", "--out", str(out)])
    if code:
        raise SystemExit(reason)
    index = scratch / "index"
    commands = [
        [
            *("pyserini.index.lucene", "--collection", "JsonCollection", "--threads", "1"),
            *("--input", str(out), "--index", str(index)),
            *("--generator", "DefaultLuceneDocumentGenerator"),
            *("--storePositions", "--storeDocvectors", "--storeRaw"),
        ]
    ]
    files = {}
    for query_set in finished.summary["measures"]:
        topics = scratch / f"{query_set}.tsv"
        asked = finished.queries(query_set).to_pylist()
        topics.write_text("".join(f"{q['query_id']}\t{q['text']}\n" for q in asked))
        for system in finished.systems(query_set):
            stage = finished.recipe.stages[system]
            if not isinstance(stage, Bm25Search) or not isinstance(stage.bm25, Fixed):
                continue
            files[query_set, system] = scratch / f"{query_set}.{system}.trec"
            commands.append(
                [
                    *("pyserini.search.lucene", "--index", str(index), "--topics", str(topics)),
                    *("--output", str(files[query_set, system]), "--hits", str(stage.depth)),
                    *("--bm25", "--k1", str(stage.bm25.k1), "--b", str(stage.bm25.b)),
                    *(["--rm3"] if stage.rm3 is not None else []),
                ]
            )
    done = subprocess.run(
        [sys.executable, "-c", PYSERINI, json.dumps(commands)], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    wanted = [ir_measures.parse_measure(name) for name in measures_of(finished)]
    for (query_set, system), file in files.items():
        judged: dict[str, dict[str, int]] = {}
        for row in judgements_of(finished, query_set).to_pylist():
            judged.setdefault(row["query_id"], {})[row["passage_id"]] = row["relevance"]
        found = ir_measures.calc_aggregate(wanted, judged, ir_measures.read_trec_run(str(file)))
        values = ", ".join(f"{measure} {found[measure]:.4f}" for measure in wanted)
        print(f"{finished.recipe.name} {query_set} {system}: {values}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
