"""Encoding on Ray by one actor and by two that share the GPU, for jobs/benchmark.py.

The passages are made up and so few that shards are small: what an actor reads, writes and commits
then takes a good part of its time. Each way is a command of its own, the two in alternate order.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from forward_work import BASE, TINY
from random_bert import Shape, make_random_bert, pieces_of, text_of

from raypipe.storage.ledger import read_spec
from raypipe.storage.root import open_storage

ACTORS = (1, 2)


@dataclass(frozen=True)
class Size:
    rows: int = 100_000
    shape: Shape = BASE
    rounds: int = 2
    length: int = 71


QUICK = Size(rows=600, shape=TINY, rounds=1, length=9)


def measured_sharing(size, device, folder, until):
    """Passages per second and the GPU's idle share for each number of actors, medians.

    No round begins after `until`; None where Ray is not installed.

    Raises:
        SystemExit: a command failed, or the vectors of the two differ.
    """
    if find_spec("ray") is None:
        return None
    make_random_bert(folder / "model", size.shape)
    write_passages(folder / "passages.tsv", size)
    runs, payloads = {actors: [] for actors in ACTORS}, set()
    for number in range(size.rounds):
        if number and time.monotonic() > until:
            break
        for actors in ACTORS if number % 2 == 0 else ACTORS[::-1]:
            out = folder / f"{number}-{actors}"
            encode(folder, out, device, actors)
            store = store_of_vectors(out)
            runs[actors].append(pace_of(store))
            payloads.add((store / "manifest.json").read_bytes())
    if len(payloads) != 1:
        raise SystemExit("two actors on a GPU: the manifests of the vectors differ")
    return {
        "rows": size.rows,
        "rounds": len(runs[1]),
        "ways": {
            str(actors): [statistics.median(values) for values in zip(*some, strict=True)]
            for actors, some in runs.items()
        },
    }


def store_of_vectors(out):
    """The folder of the workspace's one store of vectors."""
    stores = open_storage(str(out / "stores"))
    places = (path.parent for path in out.glob("stores/*/*/spec.json"))
    (store,) = (p for p in places if read_spec(stores, *p.parts[-2:]).produces == "vectors")
    return store


def write_passages(path, size):
    """Made-up passages of normally distributed lengths."""
    rng = np.random.default_rng(0)
    lengths = rng.normal(size.length, size.length * 0.4, size.rows).round().clip(3, 254)
    flat, offsets = pieces_of(lengths.astype(int), size.shape, seed=1)
    with path.open("w") as file:
        for row in range(size.rows):
            file.write(f"{row}\t{text_of(flat[offsets[row] : offsets[row + 1]])}\n")


def encode(folder, out, device, actors):
    """Encode the passages by so many actors.

    Raises:
        SystemExit: the command failed.
    """
    command = [sys.executable, "-P", "-m", "raypipe", "encode", "--out", str(out)]
    command += ["--collection", str(folder / "passages.tsv"), "--model", str(folder / "model")]
    command += [f"resources.device={device}", f"resources.actors={actors}", "resources.threads=1"]
    unproved = {**os.environ, "RAYPIPE_UNPROVED": "1"}
    done = subprocess.run([*command, "--ray"], capture_output=True, text=True, env=unproved)
    if done.returncode:
        raise SystemExit(f"encode by {actors} actors: {done.stderr[-500:]}")


def pace_of(store):
    """Rows per second from the first worker's start on, and the mean idle share of its GPU."""
    lines = (store / "attempts.jsonl").read_text().splitlines()
    ends = [event for event in map(json.loads, lines) if event["event"] == "done"]
    rows, seconds = ends[-1]["so_far"]
    return rows / seconds, statistics.mean(event.get("gpu_idle", 0.0) for event in ends)
