"""CPU time of a quickstart by what it is used for, and by stage.

    python tests/benchmarks/cpu_by_stage.py [--passages 1000] [--rounds 1] [--root DIR ...]

Runs `raypipe quickstart` once a round from each root (a checkout; by default this one) and prints
the seconds of CPU of all its processes. The share that is asked for is that of all work which is
neither a model's forward pass, nor Lucene, nor evaluation.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import psutil

HERE = Path(__file__).parent
WORK = ("model forward", "Lucene", "evaluation")
"""What a quickstart is for."""
LOOK_SECONDS = 0.2


def main() -> int:
    options = _options()
    shares: dict[Path, list[float]] = {root: [] for root in options.root}
    totals: dict[Path, list[float]] = {root: [] for root in options.root}
    for number in range(options.rounds):
        for root in options.root if number % 2 == 0 else options.root[::-1]:
            by_kind, by_stage = measured(root, options.passages, options.recipe)
            total = sum(by_kind.values())
            other = 1 - sum(by_kind[kind] for kind in WORK) / total
            shares[root].append(other)
            totals[root].append(total)
            print(f"## {root}, round {number + 1}: {total:.1f} s, {other:.1%} is other work\n")
            _print(by_kind, "work", total)
            _print(by_stage, "stage", total)
    for root in options.root:
        print(f"{root}: {_range(totals[root], '.1f')} s, other work {_range(shares[root], '.1%')}")
    if len(options.root) == 2:
        before, after = (totals[root] for root in options.root)
        ratios = [b / a for a, b in zip(before, after, strict=True)]
        print(f"second to first: {_range(ratios, '.3f')}")
    return 0


def measured(root: Path, passages: int | None, recipe: str) -> tuple[Counter[str], Counter[str]]:
    """Seconds by work, and by stage where a worker had one."""
    with tempfile.TemporaryDirectory() as scratch:
        samples, hook, out = (Path(scratch) / name for name in ("samples", "hook", "out"))
        samples.mkdir()
        hook.mkdir()
        text = f"import sys; sys.path.append({str(HERE)!r})\nimport cpu_sampler\n"
        (hook / "sitecustomize.py").write_text(f"{text}cpu_sampler.start()\n")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(hook), str(root)]),
            "CPU_SAMPLES": str(samples),
        }
        command = [sys.executable, "-m", "raypipe"]
        command += ["quickstart"] if recipe == "quickstart" else ["pipeline", recipe]
        command += ["--out", str(out)]
        command += ["--passages", str(passages)] if passages else []
        with (Path(scratch) / "log").open("wb") as log:
            child = subprocess.Popen(
                command, env=environment, cwd=root, stdout=log, stderr=subprocess.STDOUT
            )
            whole = _watched(child)
        if child.returncode:
            raise SystemExit((Path(scratch) / "log").read_text()[-3000:])
        return _counted(samples, whole)


def _watched(child: subprocess.Popen[bytes]) -> dict[int, tuple[str, float]]:
    """Name and seconds of CPU of each process that the child started, and of itself."""
    whole: dict[int, tuple[str, float]] = {}
    while child.poll() is None:
        for process in _family(child.pid):
            try:
                used = process.cpu_times()
                whole[process.pid] = (_daemon(process), used.user + used.system)
            except psutil.Error:
                continue  # it has ended
        time.sleep(LOOK_SECONDS)
    return whole


def _family(pid: int) -> Iterator[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        yield parent
        yield from parent.children(recursive=True)
    except psutil.Error:
        return


def _daemon(process: psutil.Process) -> str:
    """What a process is that does not count itself."""
    command = " ".join(process.cmdline())
    if "raypipe.cluster.reaper" in command:
        return "reaper"
    of_ray = "/ray/" in command or "ray::" in command and "ray::Actor" not in command
    return "Ray's daemons and idle processes" if of_ray else "short processes"


def _counted(
    samples: Path, whole: dict[int, tuple[str, float]]
) -> tuple[Counter[str], Counter[str]]:
    by_kind: Counter[str] = Counter()
    by_stage: Counter[str] = Counter()
    for pid, (name, used) in whole.items():
        file = samples / f"{pid}.json"
        if not file.exists():
            by_kind[name] += used
            by_stage[name] += used
            continue
        found = json.loads(file.read_text())
        process, counted = found["process"], 0.0
        for stage, kind, seconds in found["counts"]:
            counted += seconds
            if kind == "sampler":
                continue
            kind = "Lucene" if process == "Lucene" else kind
            by_kind[kind] += seconds
            by_stage[f"{process}: {stage or 'between stages'}"] += seconds
        by_kind["after the last look"] += max(0.0, used - counted)
    return by_kind, by_stage


def _print(seconds: Counter[str], head: str, total: float) -> None:
    print(f"| {head} | seconds of CPU | share |\n|---|---|---|")
    for name, used in seconds.most_common():
        if used >= total / 1000:
            print(f"| {name} | {used:.2f} | {used / total:.1%} |")
    print(flush=True)


def _range(values: list[float], form: str) -> str:
    low, middle, high = (format(f(values), form) for f in (min, median, max))
    return f"{middle} ({low} to {high})"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--recipe", default="quickstart", help="quickstart, or a recipe's file")
    parser.add_argument("--root", type=Path, nargs="+", default=[HERE.parent.parent])
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
