"""What scheduling costs: one Ray actor beside none, and many of them; scaling.py simulates more.

    python tests/benchmarks/scheduling.py one [--cpu-seconds 600] [--rounds 5] [--quick]
    python tests/benchmarks/scheduling.py many [--actors 1 2 4 8 16] [--shards 30] [--rounds 3]

`one`: all-MiniLM-L6-v2 encodes the same word pieces inline and on one Ray actor, on one thread.
CPU time after the worker is ready, of the driver and the actor; Ray's daemons are told apart. In a
round the inline way is measured before and after the other, and compared with itself.

`many`: a shard is a second of waiting, as for a device, so that N actors can work on few cores. It
is the time from when all are ready to the last commit, beside that of one actor, and the driver's
CPU time in it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import ClassVar

import numpy as np
import psutil

from raypipe import numerics
from raypipe.cluster.backend import Task
from raypipe.cluster.loop import Loop
from raypipe.cluster.report import Limits
from raypipe.cluster.worker import InlineBackend
from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.encode import EncodeStage
from raypipe.stages.stage import Needs, Opened, Payload, Sizing, Stage, ranges
from raypipe.storage.ledger import Ledger, read_manifest
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

HELPERS = Path(__file__).parent.parent / "helpers"
PASSAGES_A_SECOND = 60
"""Of CPU time, about: it decides how much is encoded."""
MEAN_PIECES = 64


def main() -> int:
    options = _options()
    numerics.set_strict()
    if options.trial:
        found = TRIALS[options.trial](Path(options.folder), options)
        Path(options.folder, "told.json").write_text(json.dumps(found))
    else:
        PARTS[options.part](options)
    return 0


def one(options) -> None:
    ratios, selves = [], []
    print("| round | inline | Ray: driver | actor | ratio | inline again | ratio | daemons |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        _made(Path(scratch), options)
        for number in range(options.rounds):
            order = ["inline", "ray", "inline"]
            first, other, again = (_tried(name, Path(scratch), options) for name in order)
            on_ray = other["driver"] + other["actor"]
            ratios.append(on_ray / ((first["driver"] + again["driver"]) / 2))
            selves.append(again["driver"] / first["driver"])
            cells = [first["driver"], other["driver"], other["actor"], ratios[-1]]
            cells += [again["driver"], selves[-1], other["daemons"]]
            print(f"| {number + 1} | {' | '.join(f'{c:.3f}' for c in cells)} |", flush=True)
    print(f"\nRay to inline: {_spread(ratios)}; inline to itself: {_spread(selves)}")


def _made(folder: Path, options) -> None:
    """A store of word pieces with the lengths of MS MARCO's passages, about."""
    sys.path.insert(0, str(HELPERS))
    from given_stores import Stores

    generator = np.random.default_rng(1)
    number = max(64, round(options.cpu_seconds * PASSAGES_A_SECOND))
    lengths = generator.poisson(MEAN_PIECES - 2, number)
    rows = [generator.integers(2000, 28000, length).tolist() for length in lengths]
    stored = Stores(folder).tokens(rows)
    (folder / "tokens.json").write_text(json.dumps([stored.storage.uri, *stored.origin.split("/")]))


def _tried(name: str, scratch: Path, options) -> dict:
    """What a trial told, in a process of its own and over stores of its own."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        command = [sys.executable, __file__, options.part, "--trial", name, "--folder", folder]
        command += ["--quick"] if options.quick else []
        command += ["--shards", str(options.shards or 30)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr[-3000:])
        return json.loads(Path(folder, "told.json").read_text())


def _encode(folder: Path, options, backend) -> dict:
    """Seconds of CPU of the driver, of the actor and of all else, from ready to the last commit."""
    root, *named = json.loads((folder.parent / "tokens.json").read_text())
    storage = PosixStorage(Path(root))
    tokens = Stored(storage, read_manifest(storage, *named))
    stage = EncodeStage(tokens, resolve_model("minilm"), "passage")
    sizing = Sizing(shard_tokens=4_000 if options.quick else 60_000)
    ledger = Ledger(PosixStorage(folder / "stores"), "out", stage.spec, stage.shards(sizing))
    seen: dict = {}

    def used() -> dict[str, float]:
        actor = seen.get("actor")
        others = [p for p in psutil.Process().children(recursive=True) if p.pid != actor]
        return {
            "driver": time.process_time(),
            "actor": _cpu(psutil.Process(actor)) if actor else 0.0,
            "daemons": sum(map(_cpu, others)),
        }

    def on_ready(facts, process):
        seen["actor"] = None if process is None else process.pid
        seen["before"] = used()

    def on_progress(report):
        if report.num_done == report.num_planned:
            seen["after"] = used()

    try:
        Loop(
            Task(stage, ledger), backend, Limits(), on_ready=on_ready, on_progress=on_progress
        ).run()
    finally:
        backend.close()
    return {key: seen["after"][key] - seen["before"][key] for key in seen["before"]}


def _cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system


def _inline(folder: Path, options) -> dict:
    return _encode(folder, options, InlineBackend(threads=1))


def _ray(folder: Path, options) -> dict:
    return _encode(folder, options, _started(1))


def _started(num_cpus: int):
    from raypipe.cluster.ray_pool import RayBackend
    from raypipe.cluster.ray_start import start_local

    return RayBackend(threads=1, local=start_local(num_cpus=num_cpus))


@dataclass
class Waiting(Stage):
    """A shard is a second in which the worker waits, once `gate` exists."""

    gate: str
    seconds: float
    needs: Needs = Needs()
    spec: ClassVar[StageSpec] = StageSpec("waiting", 1)

    def shards(self, sizing): ...

    def open(self, site):
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch, shard, skip, beat):
        beat(())
        while not Path(self.gate).exists():
            time.sleep(0.01)
        time.sleep(self.seconds)
        path = scratch / f"{shard.index}"
        path.write_text(str(shard.index))
        return Payload(path, {"rows": 1})


def many(options) -> None:
    seconds = {}
    print("| actors | shards | seconds | times one | of N | driver, ms a shard |\n|" + "---|" * 6)
    with tempfile.TemporaryDirectory() as scratch:
        for number in options.actors or [1, 2, 4, 8, 16]:
            found = [_tried(str(number), Path(scratch), options) for _ in range(options.rounds)]
            seconds[number] = [each["seconds"] for each in found]
            if 1 in seconds:
                times = number * median(seconds[1]) / median(seconds[number])
                shards = number * (options.shards or 30)
                driver = median(each["driver_ms"] for each in found)
                print(f"| {number} | {shards} | {_spread(seconds[number])} | {times:.2f} | "
                      f"{times / number:.1%} | {driver:.2f} |", flush=True)  # fmt: skip


def _waited(number: int, folder: Path, options) -> dict:
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    gate = folder / "gate"
    stage = Waiting(str(gate), 0.1 if options.quick else 1.0)
    shards = ranges(number * options.shards, 1)
    ledger = Ledger(PosixStorage(folder / "stores"), "out", stage.spec, shards)
    seen = {"ready": 0}

    def on_ready(facts, process):
        seen["ready"] += 1
        if seen["ready"] == number:
            seen["began"], seen["before"] = time.monotonic(), time.process_time()
            gate.touch()

    def on_progress(report):
        seen["ended"], seen["used"] = time.monotonic(), time.process_time()

    backend = _started(number)
    try:
        limits = Limits(num_actors=number)
        Loop(Task(stage, ledger), backend, limits, on_ready=on_ready, on_progress=on_progress).run()
    finally:
        backend.close()
    told = {"seconds": seen["ended"] - seen["began"]}
    return told | {"driver_ms": 1000 * (seen["used"] - seen["before"]) / len(shards)}


def _spread(values: list[float]) -> str:
    return f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


PARTS = {"one": one, "many": many}
TRIALS = {"inline": _inline, "ray": _ray}
TRIALS |= {str(n): partial(_waited, n) for n in range(1, 65)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--actors", type=int, nargs="+")
    parser.add_argument("--shards", type=int)
    parser.add_argument("--cpu-seconds", type=float, default=600.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small shards, for a test")
    parser.add_argument("--trial", choices=TRIALS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
