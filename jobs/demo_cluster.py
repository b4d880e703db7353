"""A cluster on this machine that loses a node and gains one: what it takes, and the same bytes.

    python jobs/demo_cluster.py [--passages 1200] [--keep FOLDER]

Starts a Ray head and two nodes of one CPU each, with a token, and submits the same pipeline twice
by `ray job submit`: embeddings, dense search, monoBERT and duoBERT over Python's own documentation.
The first job loses a node in the middle of its embeddings; during the second a third node joins
while monoBERT scores. Run it from the repository. It needs no network, ends only what it started,
and exits with 1 if a job fails or a payload differs.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

JOBS = Path(__file__).resolve().parent
RECIPE = """\
format: 1
name: demo
collection: {{format: python-docs, max_passages: {passages}}}
queries: {{test: {{builtin: test}}}}
models:
  minilm: {{path: minilm}}
  mono: {{path: minilm-mono, settings: {{total_limit: 40}}}}
  duo: {{path: minilm-duo, settings: {{passage_limit: 24, total_limit: 84}}}}
stages:
  embeddings: {{do: encode, model: minilm}}
  dense: {{do: search, index: embeddings}}
  mono: {{do: score, run: dense, model: mono, k0: 20}}
  duo: {{do: score, run: mono, model: duo, k1: 3}}
  duo-sum: {{do: aggregate, pairs: duo, method: sum}}
resources: {{device: cpu, threads: 1, precision: fp32, actors: 3, shard_tokens: 4000}}
"""
STORES = {"encode": "embeddings", "mono": "scores@mono.test", "duo": "scores@duo.test"}
GIVEN_UP = {"discarded", "one of two tries ended", "preempted", "died", "failed", "out of memory"}
"""Events of a try that ended without the shard's record."""


class Change(NamedTuple):
    """What happens to the cluster once half of a store's shards are committed."""

    store: str
    about: str
    nodes: int
    """After it."""


CHANGES = {
    "loses a node": Change("encode", "a node is taken away", 1),
    "gains a node": Change("mono", "a third node joins", 3),
}


class Job:
    """One submitted pipeline, whose stores are read while it runs and when it has ended."""

    def __init__(self, nodes, recipe: Path, out: Path) -> None:
        self.out, self.began, self.changed = out, time.time(), float("inf")
        command = [*nodes.submit, "--address", nodes.dashboard, "--", sys.executable]
        command += [str(JOBS / "pipeline.py"), str(recipe), "--out", str(out)]
        self.log = out.with_suffix(".log")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env=nodes.environment, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_for_half(self, store: str) -> None:
        """Until half of the store's shards are committed."""
        while self._process.poll() is None:
            plans = list((self.out / "stores" / STORES[store]).glob("*/plan.json"))
            if plans and 2 * len(self.records(store)) >= self._num_planned(store):
                self.changed = time.time()
                return
            time.sleep(0.05)
        self.end()
        raise SystemExit(f"{self.log}: the job ended before half of {store} was computed")

    def end(self) -> None:
        """Wait for the job, which has to be complete."""
        if self._process.wait() != 0:
            sys.stderr.write(self.log.read_text())
            raise SystemExit(f"{self.log}: the job failed with exit {self._process.returncode}")
        self.seconds = time.time() - self.began

    def records(self, store: str) -> list[tuple[float, int, str]]:
        """When, how many rows, and the payload's SHA-256, of each committed shard, in time."""
        found = []
        for path in (self.out / "stores" / STORES[store]).glob("*/shards/*.json"):
            body = _body(path)
            found.append((path.stat().st_mtime, body["facts"]["rows"], body["sha256"]))
        return sorted(found)

    def rates(self, store: str) -> list[float | None]:
        """Rows per second before and after the change; None where fewer than three shards fall."""
        every = self.records(store)
        parts = ([r for r in every if before == (r[0] <= self.changed)] for before in (True, False))
        return [_rate(part) for part in parts]

    def payloads(self) -> dict[str, str]:
        """The SHA-256 of every payload that a record names, by store and number of the shard."""
        return {
            f"{path.parts[-4]}/{path.stem}": _body(path)["sha256"]
            for path in self.out.glob("stores/*/*/shards/*.json")
        }

    def working_seconds(self) -> float:
        """In which encode, mono and duo were computed, from their first ready workers on."""
        return sum(
            note["working_seconds"] for _, note in self._notes() if "working_seconds" in note
        )

    def given_up(self) -> list[int]:
        """The rows of each try of a shard that ended without a record: others computed them."""
        return [
            _body(store / "shards" / f"{note['shard']:05d}.json")["facts"]["rows"]
            for store, note in self._notes()
            if note["event"] in GIVEN_UP
        ]

    def _notes(self) -> Iterator[tuple[Path, dict]]:
        """What the driver noted of the shards of encode, mono and duo, with the store's folder."""
        for name in STORES.values():
            for path in (self.out / "stores" / name).glob("*/attempts.jsonl"):
                for line in path.read_text().splitlines():
                    yield path.parent, json.loads(line)

    def _num_planned(self, store: str) -> int:
        (plan,) = (self.out / "stores" / STORES[store]).glob("*/plan.json")
        return len(_body(plan)["shards"])


def _body(path: Path) -> dict:
    return json.loads(path.read_text())["body"]


def _rate(records: list[tuple[float, int, str]]) -> float | None:
    if len(records) < 3:
        return None
    return sum(rows for _, rows, _ in records[1:]) / (records[-1][0] - records[0][0])


def report(name: str, change: Change, job: Job) -> str:
    """What one job took, in lines."""
    records = [record for store in STORES for record in job.records(store)]
    given_up, rows = job.given_up(), sum(rows for _, rows, _ in records)
    lines = [
        f"the job that {name}: {job.seconds:.0f} s from submission to end; {change.about} after "
        f"{job.changed - job.began:.0f} s",
        f"  no model at work: {1 - job.working_seconds() / job.seconds:.0%} of the time",
        f"  {len(records)} shards of {rows:,} rows; begun and given up: {len(given_up)}, with "
        f"{sum(given_up)} rows",
    ]
    before = 2
    for store in STORES:
        rates = zip((before, change.nodes), job.rates(store), strict=True)
        told = [
            f"{rate:.1f} rows/s on {n} node{'s' * (n > 1)}" for n, rate in rates if rate is not None
        ]
        lines.append(f"  {store}: {', '.join(told)}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run both jobs, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=1200, help="of Python's documentation")
    parser.add_argument("--keep", type=Path, help="an empty folder for stores and logs")
    given = parser.parse_args(arguments)
    if given.passages < 100:
        parser.error(f"--passages: expected at least 100, found {given.passages}")
    if given.keep and given.keep.exists() and any(given.keep.iterdir()):
        parser.error(f"--keep: {given.keep} is not empty")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends the cluster
    sys.path.append(str(JOBS.parent / "tests" / "helpers"))
    from cluster_of_nodes import Nodes

    began, jobs = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        recipe = folder / "recipe.yaml"
        recipe.write_text(RECIPE.format(passages=given.passages))
        nodes = Nodes(2, {}, jobs=True)
        try:
            print(f"a head and 2 nodes: {time.monotonic() - began:.0f} s on {os.cpu_count()} CPUs")
            for name, change in CHANGES.items():
                job = Job(nodes, recipe, folder / name.replace(" ", "-"))
                job.wait_for_half(change.store)
                (nodes.take_last if change.nodes == 1 else nodes.add)()
                job.end()
                print(report(name, change, job), flush=True)
                if change.nodes == 1:
                    nodes.add()
                jobs[name] = job.payloads()
        finally:
            nodes.close()
    first, second = jobs.values()
    differ = sorted(
        path for path in first.keys() | second.keys() if first.get(path) != second.get(path)
    )
    print(
        f"payloads: {len(first)} in each job, {'every' if not differ else 'not every'} SHA-256 the "
        f"same; {time.monotonic() - began:.0f} s in all"
    )
    for path in differ:
        print(f"  differs: {path}")
    return int(bool(differ))


if __name__ == "__main__":
    # In the place of this folder, whose tokenize.py hides Python's own: the one that has raypipe.
    above = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[: not sys.flags.safe_path] = [above]
    from raypipe.isolation import leave_folder

    leave_folder(sys.path.pop(0), os.getcwd())
    sys.exit(main())
