"""Rates of the forward passes on this machine, beside what a user would pick instead.

    python jobs/benchmark.py [--minutes 6] [--price 3.99] [--out FILE] [--device cpu] [--quick]
    python jobs/benchmark.py --part tests|encode|mono|mono-large|duo|duo-large|train|search|shared

Needs torch, transformers, tokenizers, safetensors, numpy, pyyaml, pyarrow and pydantic;
sentence-transformers (with ONNX and OpenVINO), pyserini, faiss, pytest and Ray are used where they
are installed. Run it from the repository.

The whole ends within --minutes. The time is spent by priority: on a GPU the tests of bytes and
equality come first, in at most 40% of it; then every case in bf16, beside its peers; then the cases
in fp16 and the other precisions. --out is written anew after each row, so a command that is cut off
leaves what it has. What was left out is named, and so is a row that failed: the others go on, and
the exit status is 1.

First the machine: products of two square matrices in each precision, and a copy. Then word pieces
in memory to vectors or scores in memory, and text to the same, over models with random weights and
lengths as of MS MARCO's passages. All ways must agree before one is timed. Each way is tried once,
and the fastest of each side is kept in --tuned for the next run on this machine; then rounds
alternate in order. Ratios are paired within a round: median and range. On a CPU the time is that
of the process, on one thread. `train` is an update of a model, forward, backward and Adam. In bf16
and fp16 the fused kernels are set beside torch's own functions over the same passes, and in two
cases torch.compile's, with a profile of the kernels. --price is that of the machine in dollars
an hour; the table says what a million inputs cost at it.

`search` is exact search over random vectors. On a CPU it is set beside the products alone, and
beside faiss's IndexFlatIP with its own settings, in batches of 32, 64 and 128 queries. On a GPU it
is one search of 6,980 queries over 8,841,823 vectors of 768 dimensions. `shared`, the last, encodes
100,000 made-up passages on Ray by one actor and by two that share the GPU.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = [ROOT / "tests" / name for name in ("helpers", "benchmarks", "gpu")]
TUNED = Path.home() / ".cache" / "raypipe" / "benchmark.json"
TESTS, MACHINE, TRAIN, SEARCH, SHARED = "tests", "the machine", "train", "search", "shared"
ON_DEVICE = "search on the device"
PARTS = (TESTS, "encode", "mono", "mono-large", "duo", "duo-large", TRAIN, SEARCH, SHARED)
PRECISIONS = ("bf16", "fp16", "fp32", "tf32")
"""By priority."""
TRAINED_IN = ("bf16", "fp32")
OF_BYTES = (
    *("test_training.py", "test_fixed.py", "test_search.py"),
    *("test_bytes.py", "test_scoring.py"),
)
"""In tests/gpu, by priority: what no GPU has tried since it was changed comes first."""
ONE_ON_CPU = "the_gradient_is_the_cpus and encoder"
"""Of the first file; it shows that tests are run. The suite runs all of them on a CPU."""
SHARE_OF_TESTS = 0.4
LEAST_SHARE = 0.2
"""Of the time that is left, for each piece of work: what comes first is measured well."""
SECONDS_TO_SAY = 2.0
"""Of the limit, for the report itself."""


def options(arguments):
    """The command line's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="all parts, if not given")
    parser.add_argument("--precision", action="append", help="those of the device, if not given")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--out", help="FILE.json and FILE.md are written after each row")
    parser.add_argument("--tuned", type=Path, default=TUNED, help="the fastest ways found so far")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, seconds on a CPU")
    parser.add_argument("--minutes", type=float, default=6, help="the limit of the whole")
    parser.add_argument("--price", type=float, help="dollars an hour of this machine")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Measure, and print the report."""
    given, began = options(arguments), time.monotonic()
    if given.device == "cpu":  # before a library starts its threads
        os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    import torch
    from forward import machine
    from forward_report import header
    from forward_work import FULL, ON_CPU, QUICK

    from raypipe.models.machine.precision import able

    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"no CUDA device: torch {torch.__version__} sees none; --device cpu runs here")
    if given.device == "cpu":
        torch.set_num_threads(1)
    settings = QUICK if given.quick else ON_CPU if given.device == "cpu" else FULL
    parts = given.part or PARTS
    known = [each for each in PRECISIONS if each in able(given.device)]  # int8 has no peer here
    tuned = json.loads(given.tuned.read_text()) if given.tuned.exists() else {}
    ours = tuned.setdefault(json.dumps(header(given.device), sort_keys=True), {})
    work = {}
    if TESTS in parts and (given.device == "cuda" or given.quick):
        work[TESTS] = lambda until: {"tests": tested(given, until)}
    work[MACHINE] = lambda until: {"rates": machine(given.device, settings)}
    for number, precision in enumerate(given.precision or known):
        if SEARCH in parts and number == 1 and given.device == "cuda":
            work[ON_DEVICE] = search_on_device(given)  # after every case once, in bf16
        for case in settings.cases:
            if case.part in parts and (case.part != TRAIN or precision in TRAINED_IN):
                name = f"{case.name}, {precision}"
                work[name] = row_of(case, precision, settings, given.device, ours)
    if SEARCH in parts and given.device == "cpu":
        work[SEARCH] = search_of(given.quick, ours)
    if SEARCH in parts and (given.device == "cuda" or given.quick):
        work.setdefault(ON_DEVICE, search_on_device(given))
    if SHARED in parts and (given.device == "cuda" or given.quick):
        work[SHARED] = sharing(given)
    report = Report(given, header(given.device), work, tuned, ends=began + given.minutes * 60)
    for number, name in enumerate(work):
        share = max(LEAST_SHARE, 1 / (len(work) - number))
        report.run(name, SHARE_OF_TESTS if name == TESTS else share)
    report.end()
    sys.exit(bool(report.body["failed"]))


class Report:
    """What was measured so far; files and the last words are made of it at any moment."""

    def __init__(self, given, machine, work, tuned, ends):
        """What to measure.

        Args:
            given: the options.
            machine: its header.
            work: a function for each name, by priority.
            tuned: the contents of the file of the fastest ways.
            ends: the limit, on the clock of time.monotonic; what runs then is cut off.
        """
        self._given, self._work, self._tuned, self._ends = given, dict(work), tuned, ends
        self.body = {"machine": machine, "quick": given.quick, "price": given.price, "rows": []}
        self.body |= {"tests": None, "training": [], "search": None, "rates": {}}
        self.body |= {"search_on_device": None, SHARED: None}
        self.body |= {"not_run": [], "left_out": [], "failed": []}
        self._running, self._lock = None, threading.RLock()
        self._watch = threading.Timer(max(0.0, self._left()), self._cut)
        self._watch.daemon = True
        self._watch.start()

    def _left(self):
        return self._ends - SECONDS_TO_SAY - time.monotonic()

    def run(self, name, share):
        """Measure in a share of the time that is left: the work is told when to begin no round."""
        left, begins = self._left(), time.monotonic()
        if left <= 0:
            return
        self._running = name
        try:
            parts = self._work[name](begins + left * share)
        except (Exception, SystemExit) as error:  # the time on a device is scarce: the rest goes on
            import traceback  # which reads `tokenize`: Python's own by now

            said = f"{type(error).__name__}: {error}".splitlines()[0]
            parts = {"failed": f"{name}: {said}"}
            traceback.print_exc()
        print(f"{name}: {left - self._left():.0f} s", file=sys.stderr, flush=True)
        self.add(parts)

    def add(self, parts):
        """Take what was measured, and write the files."""
        with self._lock:
            del self._work[self._running]
            self._running = None
            for name, part in parts.items():
                if isinstance(self.body[name], list):
                    self.body[name].append(part)
                else:
                    self.body[name] = part
            self._write()

    def end(self):
        """Print the report; what is left of the work was not run."""
        with self._lock:
            self._watch.cancel()
            cut = {self._running: " (cut off)"}
            self.body["not_run"] = [name + cut.get(name, "") for name in self._work]
            self._write()
            print(self._table(), flush=True)

    def _cut(self):
        """The limit is reached: say what there is, and end, whatever is computed."""
        with self._lock:
            self.end()
            os._exit(int(bool(self.body["failed"])))

    def _table(self):
        from forward_report import table

        return table(self.body)

    def _write(self):
        if self._given.out:
            text = json.dumps(self.body, indent=1) + "\n"
            Path(f"{self._given.out}.json").write_text(text)
            Path(f"{self._given.out}.md").write_text(self._table())
        self._given.tuned.parent.mkdir(parents=True, exist_ok=True)
        self._given.tuned.write_text(json.dumps(self._tuned, indent=1) + "\n")


def tested(given, until):
    """The last line and the failures of the tests of bytes and equality, in a process of its own.

    On a CPU a single one is run, over the CPU.
    """
    from importlib.util import find_spec

    if find_spec("pytest") is None:
        return {"command": "", "said": ["pytest is not installed"], "exit": None}
    names = OF_BYTES if given.device == "cuda" else OF_BYTES[:1]
    files = [str(ROOT / "tests" / "gpu" / name) for name in names]
    command = [sys.executable, "-m", "pytest", *files, "-q", "--tb=line", "--durations=0"]
    command += ["-m", "gpu"] if given.device == "cuda" else ["-m", "not gpu", "-k", ONE_ON_CPU]
    command += ["-n", "8"] if given.device == "cuda" and find_spec("xdist") else []
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
        try:
            child.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.terminate()
            child.wait()
        output.seek(0)
        lines = output.read().splitlines()
    told = [line for line in lines if line.startswith(("FAILED", "ERROR", "test_"))]
    shown = " ".join(["pytest", *command[3:]]).replace(f"{ROOT}/", "")
    return {"command": shown, "said": [*told, *lines[-1:]], "exit": child.returncode}


def row_of(case, precision, settings, device, tuned):
    """A function that measures the case until then."""
    from forward import measured, measured_training

    def work(until):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "model"
            if case.part == TRAIN:
                return {"training": measured_training(case, precision, settings, device, folder)}
            return {"rows": measured(case, precision, settings, device, folder, until, tuned)}

    return work


def search_of(quick, tuned):
    """A function that measures exact search until then."""
    from search_rates import QUICK, Size, measured_search

    def work(until):
        with tempfile.TemporaryDirectory() as name:
            size = QUICK if quick else Size()
            found = measured_search(size, Path(name), until, tuned.get(SEARCH))
        tuned[SEARCH] = found["products"]["way"]
        parts = {"search": found}
        return parts | ({"left_out": found["left_out"]} if "left_out" in found else {})

    return work


def search_on_device(given):
    """A function that measures exact search on the device until then."""
    from search_on_device import QUICK, Size, measured_on_device

    size = QUICK if given.quick else Size()
    return lambda until: {"search_on_device": measured_on_device(size, given.device, until)}


def sharing(given):
    """A function that measures two actors on one GPU until then."""
    from shared_gpu import QUICK, Size, measured_sharing

    def work(until):
        size = QUICK if given.quick else Size()
        with tempfile.TemporaryDirectory() as name:
            return {SHARED: measured_sharing(size, given.device, Path(name), until)}

    return work


if __name__ == "__main__":
    # In the place of this folder, whose tokenize.py hides Python's own: the one that has raypipe.
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[: not sys.flags.safe_path] = [above]
    from raypipe.isolation import leave_folder

    leave_folder(sys.path.pop(0), os.getcwd())
    sys.path[:0] = [str(folder) for folder in FOLDERS]
    main()
