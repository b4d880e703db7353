"""Print how far `raypipe pipeline` is from a model, and what a rerun loads: a report, no gate.

    python tests/tools/distance.py [--runs 5]

A frame is a call of a function in raypipe/ that has not returned when the packed forward begins,
from the function of the command to that of the forward pass, both counted. Calls of other packages
between them are not counted. A rerun computes nothing: the same command over a complete workspace.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
RECIPE = """
format: 1
name: near
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
models: {{tiny: {{path: {folder}/tiny}}, mono: {{path: {folder}/mono}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 3}}
  mono: {{do: score, run: dense, model: mono, k0: 2}}
evaluate: {{measures: [RR@10], baseline: dense}}
resources: {{backend: inline, device: cpu, threads: 1}}
"""
COMMAND = ("raypipe/cli/pipeline.py", "pipeline")
FORWARD = ("raypipe/models/bert/forward.py", "hidden_states")
MODELS = {"raypipe/models/encoder.py": "encoder", "raypipe/models/scorer.py": "monoBERT"}


def main(arguments: list[str] | None = None) -> None:
    """Trace a run, then measure its reruns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="reruns whose median is printed")
    parser.add_argument("--traced", nargs=2, metavar=("RECIPE", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.traced:
        print(json.dumps(traced(*options.traced)))
        return
    with tempfile.TemporaryDirectory(prefix="distance-") as scratch:
        folder = Path(scratch)
        verb = [str(write_inputs(folder)), str(folder / "work")]
        first, again = (_child([__file__, "--traced", *verb]) for _ in range(2))
        for model, frames in json.loads(first)["frames"].items():
            files = dict.fromkeys(file for file, _ in frames)
            print(f"{model}: {len(frames)} frames in {len(files)} files")
            for number, (file, name) in enumerate(frames, 1):
                print(f"  {number:2} {file} {name}")
        rerun = json.loads(again)
        assert not rerun["frames"], "the rerun computed something"
        print(f"modules of raypipe that a rerun loads: {rerun['modules']}")
        walls, cpus = zip(*(_timed(verb) for _ in range(options.runs)), strict=True)
        print(
            f"seconds of a rerun, median of {options.runs}: "
            f"{median(walls):.2f} wall, {median(cpus):.2f} CPU"
        )


def write_inputs(folder: Path) -> Path:
    """The recipe's file, with its passages, queries, judgements and models beside it."""
    sys.path.insert(0, str(ROOT / "tests" / "helpers"))
    import tiny

    (folder / "passages.tsv").write_text("a\tthe zebra\nb\ta lease\nc\tof shards\n")
    (folder / "queries.tsv").write_text("1\tthe zebra\n2\ta lease\n")
    (folder / "qrels.txt").write_text("1 0 a 1\n2 0 b 1\n")
    tiny.make_tiny_bert(folder / "tiny")
    tiny.make_tiny_reranker(folder / "mono", seed=1)
    (folder / "near.yaml").write_text(RECIPE.format(folder=folder))
    return folder / "near.yaml"


def traced(recipe: str, out: str) -> dict[str, object]:
    """The frames above the first forward pass of each model, and the number of modules loaded."""
    from raypipe.cli.main import run

    frames: dict[str, list[tuple[str, str]]] = {}

    def on_call(frame: object, event: str, argument: object) -> None:
        if event == "call" and _place(frame) == FORWARD:
            stack = _stack(frame)
            files = {file for file, _ in stack}
            model = next((name for file, name in MODELS.items() if file in files), "other")
            frames.setdefault(model, stack)

    sys.setprofile(on_call)
    exit_code, _ = run(["pipeline", recipe, "--out", out])
    sys.setprofile(None)
    assert exit_code == 0
    modules = sum(name.partition(".")[0] == "raypipe" for name in sys.modules)
    return {"frames": frames, "modules": modules}


def _stack(frame: object) -> list[tuple[str, str]]:
    """File and function of raypipe's own calls, from the command's function to this one."""
    stack = []
    while frame is not None:
        file, name = _place(frame)
        if file.startswith("raypipe/"):
            stack.append((file, name))
        if (file, name) == COMMAND:
            break
        frame = frame.f_back  # type: ignore[attr-defined]
    return stack[::-1]


def _place(frame: object) -> tuple[str, str]:
    """The file, from the root of the checkout, and the name of a frame's function."""
    code = frame.f_code  # type: ignore[attr-defined]
    return code.co_filename.removeprefix(f"{ROOT}/"), code.co_name


def _timed(verb: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of `raypipe pipeline`."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    _child(["-m", "raypipe", "pipeline", verb[0], "--out", verb[1]])
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - began
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _child(arguments: list[str]) -> str:
    """The last line that a Python process of this checkout prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    environment["RAYPIPE_UNPROVED"] = "1"  # a tiny model's special tokens are no added ones
    command = [sys.executable, *arguments]
    with tempfile.TemporaryFile("w+") as log:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        log.seek(0)
        assert done.returncode == 0, log.read()
    return done.stdout.splitlines()[-1]


if __name__ == "__main__":
    main()
