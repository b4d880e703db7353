"""Counts a process's CPU time by what its threads were doing; see cpu_by_stage.py.

A thread looks at all Python threads fifty times a second and adds the CPU time that each has
used since the last look to the place where it is found. CPU time of threads that Python does not
know, such as those of Ray's core and of a JVM, is what is left of the process's. Every second the
counts are written to a file, since Ray ends its workers without a word.
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

LOOK_SECONDS = 0.02
WRITE_SECONDS = 1.0
FOLDER = "CPU_SAMPLES"
"""Name of the variable with the folder of the counts: a file for each process."""

Key = tuple[str, str]
"""The stage, empty if there is none, and what is done for it."""

FORWARD = {("models/encoder.py", "encode"), ("models/scorer.py", "score")}
PLACES = {
    "engines/lucene/": "Lucene",
    "evaluation/": "evaluation",
    "driver/measure.py": "evaluation",
    "driver/analysis/": "report page",
    "analysis/": "report page",
    "models/machine/": "probe of rows in company",
    "models/machine/memory.py": "giving memory back",
    "models/": "opening models",
    "storage/": "storage",
    "text/": "inputs and word pieces",
    "stages/tokenize.py": "inputs and word pieces",
    "data/python_docs/": "making the collection",
}
"""What is done in a file of raypipe; the longest of these beginnings counts."""


def start() -> None:
    """Begin to count in a driver or a worker, in a thread that ends with the process."""
    folder = os.environ.get(FOLDER)
    if folder and process_kind():
        threading.Thread(target=_Counts(Path(folder)).run, name="cpu sampler", daemon=True).start()


class _Counts:
    def __init__(self, folder: Path) -> None:
        """Nothing yet, but the start of the interpreter."""
        self.file = folder / f"{os.getpid()}.json"
        self.counts: Counter[Key] = Counter({("", "start of Python"): time.process_time()})
        self.last: dict[int, float] = {}
        self.written = time.monotonic()

    def run(self) -> None:
        own = threading.get_ident()
        self.last[own] = 0.0
        while True:
            time.sleep(LOOK_SECONDS)
            self.look(own)
            if time.monotonic() - self.written > WRITE_SECONDS:
                self.write()

    def look(self, own: int) -> None:
        """Add each thread's CPU time since the last look to where it is now."""
        for ident, frame in sys._current_frames().items():
            try:
                now = time.clock_gettime(time.pthread_getcpuclockid(ident))
            except OSError:  # it has ended
                continue
            used = now - self.last.get(ident, 0.0)
            self.last[ident] = now
            if used > 0.0:
                key = ("", "sampler") if ident == own else where(frame)
                self.counts[key] += used

    def write(self) -> None:
        """What is left of the process's time is of threads that Python does not know."""
        self.written = time.monotonic()
        left = time.process_time() - sum(self.counts.values())
        jvm = "jnius" in sys.modules
        native = "Lucene" if jvm else "threads of Ray, Arrow and the system"
        lines = [[stage, kind, used] for (stage, kind), used in self.counts.items()]
        lines.append(["", native, max(0.0, left)])
        found = {"process": process_kind(), "counts": lines}
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.replace(self.file)


def where(frame: FrameType | None) -> Key:
    """The stage and the work of a thread, from its innermost frame outwards."""
    stage = kind = module = ""
    while frame is not None:
        path, function = frame.f_code.co_filename, frame.f_code.co_name
        if path.startswith("<frozen importlib"):
            if function == "_find_and_load":
                found = str(frame.f_locals.get("name", "")).partition(".")[0]
                module = module if module and found == "raypipe" else found
        elif "/raypipe/" in path:
            inside = path.rpartition("/raypipe/")[2]
            if (inside, function) in FORWARD:
                kind = "model forward"
            kind = kind or work_in(inside)
            if inside == "cluster/worker.py" and function in ("introduce", "perform"):
                stage = frame.f_locals["task"].ledger.store
            elif inside == "driver/execute.py" and function == "ensure":
                stage = stage or str(frame.f_locals.get("name", ""))
        elif not kind and "/ray/" in path:
            kind = "Ray's Python"
        frame = frame.f_back
    if module:
        return stage, f"import of {module}"
    return stage, kind or "other"


def work_in(inside: str) -> str:
    """What is done in a file of raypipe."""
    found = max((place for place in PLACES if inside.startswith(place)), key=len, default="")
    return PLACES.get(found, inside)


def process_kind() -> str:
    """Driver, worker or Lucene's builder, found by the command line; empty for any other."""
    command = " ".join(sys.orig_argv)
    for part, kind in (
        ("raypipe.engines.lucene.build", "Lucene"),
        ("raypipe.cluster.reaper", ""),
        ("-m raypipe", "driver"),
        ("default_worker.py", "worker"),
    ):
        if part in command:
            return kind
    return ""
