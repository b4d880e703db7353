"""Rates of the forward passes on this machine, beside what a user would pick instead.

    python jobs/benchmark.py --part encode|mono|mono-large|duo|duo-large [--out FILE] [--device cpu]
    python jobs/benchmark.py --part search --device cpu [--out FILE]

Needs torch, transformers, tokenizers, safetensors, numpy, pyyaml, pyarrow and pydantic;
sentence-transformers (with ONNX and OpenVINO), pyserini and faiss are measured where they are
installed. Run it from the repository. No round begins after --minutes, 7.5 by default: a part ends
within 9. What was left out is named.

First the machine: products of two square matrices in each precision, and a copy. Then word pieces
in memory to vectors or scores in memory, and text to the same, over models with random weights and
lengths as of MS MARCO's passages. All ways must agree before one is timed. Each way is tried once,
and the fastest of each side is kept in --tuned for the next run on this machine; then rounds
alternate in order. Ratios are paired within a round: median and range. On a CPU the time is that
of the process, on one thread.

`search` is exact search over random vectors, which CPUs compute: beside the products alone, and
beside faiss's IndexFlatIP with its own settings, in batches of 32, 64 and 128 queries.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = [ROOT / "tests" / "helpers", ROOT / "tests" / "benchmarks"]
TUNED = Path.home() / ".cache" / "raypipe" / "benchmark.json"
PARTS = ("encode", "mono", "mono-large", "duo", "duo-large")
SEARCH = "search"
ONLY_ON_CPU = "search: exact search is computed on CPUs; --device cpu measures it"


def options(arguments):
    """The command line's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--part", choices=(*PARTS, SEARCH), action="append", help="all parts, if not given"
    )
    parser.add_argument("--precision", action="append", help="those of the device, if not given")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--out", help="FILE.json and FILE.md are written")
    parser.add_argument("--tuned", type=Path, default=TUNED, help="the fastest ways found so far")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, seconds on a CPU")
    parser.add_argument("--minutes", type=float, default=7.5, help="no round begins after these")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Measure, and print the report."""
    given, began = options(arguments), time.monotonic()
    if given.device == "cpu":  # before a library starts its threads
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    import torch
    from forward import machine, measured
    from forward_report import header, table
    from forward_work import FULL, ON_CPU, QUICK
    from search_rates import QUICK as QUICK_SEARCH
    from search_rates import Size, measured_search

    from raypipe.models.machine.precision import able

    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"no CUDA device: torch {torch.__version__} sees none; --device cpu runs here")
    if given.device == "cpu":
        torch.set_num_threads(1)
    settings = QUICK if given.quick else ON_CPU if given.device == "cpu" else FULL
    report = {"machine": header(given.device), "quick": given.quick, "rows": [], "not_run": []}
    report |= {"search": None, "left_out": []}
    report["rates"] = machine(given.device, settings)
    every = json.loads(given.tuned.read_text()) if given.tuned.exists() else {}
    tuned = every.setdefault(json.dumps(report["machine"], sort_keys=True), {})
    known = [each for each in able(given.device) if each != "int8"]  # it has no peer here
    precisions = given.precision or known
    cases = [case for case in settings.cases if case.part in (given.part or PARTS)]
    runs = [(case, precision) for case in cases for precision in precisions]
    searches = SEARCH in (given.part or (SEARCH,))
    if searches and given.device == "cuda":
        searches = False
        report["left_out"].append(ONLY_ON_CPU)
    for number, (case, precision) in enumerate(runs):
        left = given.minutes * 60 - (time.monotonic() - began)
        if left <= 0:
            report["not_run"].append(f"{case.name}, {precision}")
            continue
        until = time.monotonic() + left / (len(runs) - number + searches)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "model"
            row = measured(case, precision, settings, given.device, folder, until, tuned)
        spent = time.monotonic() - began
        print(f"{case.name}, {precision}: {row['seconds']:.3f} s; {spent:.0f} s", file=sys.stderr)
        report["rows"].append(row)
        keep(every, given.tuned)
    if searches and time.monotonic() - began >= given.minutes * 60:
        report["not_run"].append(SEARCH)
    elif searches:
        size, until = QUICK_SEARCH if given.quick else Size(), began + given.minutes * 60
        with tempfile.TemporaryDirectory() as name:
            found = measured_search(size, Path(name), until, tuned.get(SEARCH))
        report["search"], tuned[SEARCH] = found, found["products"]["way"]
        report["left_out"] += [found["left_out"]] if "left_out" in found else []
        keep(every, given.tuned)
    print(table(report))
    if given.out:
        Path(f"{given.out}.json").write_text(json.dumps(report, indent=1) + "\n")
        Path(f"{given.out}.md").write_text(table(report))


def keep(tuned, file):
    """Write the fastest ways found so far."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(tuned, indent=1) + "\n")


if __name__ == "__main__":
    # In the place of this folder, whose tokenize.py hides Python's own: the one that has raypipe.
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[: not sys.flags.safe_path] = [above]
    from raypipe.isolation import leave_folder

    leave_folder(sys.path.pop(0), os.getcwd())
    sys.path[:0] = [str(folder) for folder in FOLDERS]
    main()
