"""What large collections cost on many GPUs, and what breaks first: measured parts, and arithmetic.

    python tests/benchmarks/scaling.py [--shards 10000] [--actors 512] [--rounds 3] [--kept FILE]

Measured on one CPU, in CPU time of the process: the loop with simulated actors on a virtual clock
(with faults too, and what Python holds as the shards end), Ray's calls for a shard by real actors
and for many outstanding answers, a store's records, a payload's check, and the merge of a search.
The rest is arithmetic. Rates of GPUs are others' (`RATES`); raypipe has not measured any. --kept
keeps the measurements, and takes them from the file if it is there.
"""

import argparse
import hashlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np
import pyarrow as pa

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))
from scheduling_simulated import FAULTS, simulated  # noqa: E402

from raypipe import schema  # noqa: E402
from raypipe.driver.place import SHARD_TOKENS  # noqa: E402
from raypipe.markdown import markdown_table  # noqa: E402
from raypipe.stages.run_tables import best, read_queries_of_run, run_table  # noqa: E402
from raypipe.stages.stage import Sizing, ranges  # noqa: E402
from raypipe.storage.ledger import Ledger  # noqa: E402
from raypipe.storage.payloads import write_table  # noqa: E402
from raypipe.storage.posix import PosixStorage  # noqa: E402
from raypipe.storage.records import Shard  # noqa: E402
from raypipe.storage.spec import StageSpec  # noqa: E402
from raypipe.storage.store import Stored  # noqa: E402

QUERIES, DEPTH, DIMENSIONS = 6_980, 1_000, 768
PASSAGES = {"8.8M": 8_841_823, "138M": 138_364_198}
RATES = {"encode": 128 / 0.01614, "mono": 128 / 0.05161, "duo": 128 / 0.16370}
"""Inputs a second on an A100 (40 GB) in fp16, by TensorRT and not by raypipe: batches of 128,
BERT-base at 128 tokens, BERT-large at 128 and at 384, copies to and from the device left out.
Source: github.com/NVIDIA/TensorRT, demo/BERT/README.md, commit 007c347."""
TOKENS = {"encode": 73.0, "mono": 83.5, "duo": 155.5}
"""Of an input, by the lengths of jobs/benchmark.py."""
SEARCH_VALUES = 500 * 1_000_000 * 768 / 6.82
"""Values that exact search multiplies a second on one core; README.md has the measurement."""
NODE_BYTES = 64 * 2**30
GPUS = (1, 8, 64)
REAL_ACTORS, MOST_ACTORS = 8, 4_096


@dataclass(frozen=True)
class Measured:
    """CPU time of the driver's process unless said otherwise."""

    loop_ms: float
    """A shard, simulated actors."""
    ray_ms: float
    """A shard, some real actors: calls, answers, heartbeats and the loop."""
    wait_ms: tuple[float, float]
    """Ray's two waits for an answer, of so few and of `--actors` outstanding ones."""
    store_ms: float
    """A shard: planned, listed, noted, and its record read at publishing."""
    check_bytes: float
    """Checked a second at publishing."""
    merge_seconds: float
    """A line of parts, of the worker that merges."""
    merge_bytes: float
    """The same worker's memory."""

    @property
    def shard_seconds(self) -> float:
        """The driver's, with so many actors as were simulated."""
        few, many = self.wait_ms
        return (self.ray_ms + max(0.0, many - few) + self.store_ms) / 1000


@dataclass(frozen=True)
class Work:
    """Inputs of one kind, on GPUs that each compute `rate` a second."""

    name: str
    inputs: int
    tokens: float
    rate: float

    @property
    def shards(self) -> int:
        """Planned for GPUs."""
        return math.ceil(self.inputs * self.tokens / SHARD_TOKENS["cuda"])

    def seconds(self, gpus: int) -> float:
        """Until the last shard ends: equal shards, in turns."""
        return math.ceil(self.shards / gpus) * self.inputs / self.shards / self.rate

    def gpus_per_driver(self, measured: Measured, shard_tokens: int) -> float:
        """As many keep the driver at work without a pause."""
        return shard_tokens / self.tokens / self.rate / measured.shard_seconds


def works(passages: int) -> list[Work]:
    """Encoding all passages, 1,000 candidates of each query, and all ordered pairs of 50."""
    inputs = {"encode": passages, "mono": 1_000 * QUERIES, "duo": 50 * 49 * QUERIES}
    return [Work(name, inputs[name], TOKENS[name], RATES[name]) for name in inputs]


@dataclass(frozen=True)
class Search:
    """Exact search of all queries by actors of one core, in at most two spans an actor."""

    passages: int
    actors: int
    measured: Measured

    @property
    def product_seconds(self) -> float:
        """Of every actor."""
        return QUERIES * self.passages * DIMENSIONS / SEARCH_VALUES / self.actors

    @property
    def lines(self) -> int:
        """Of a query in all spans."""
        return DEPTH * min(2 * self.actors, works(self.passages)[0].shards)

    @property
    def merge_seconds(self) -> float:
        """Blocks of queries are merged side by side."""
        blocks = math.ceil(QUERIES / Sizing().shard_queries)
        turns = math.ceil(blocks / self.actors)
        return turns * QUERIES / blocks * self.lines * self.measured.merge_seconds

    @property
    def merge_bytes(self) -> float:
        """Of a worker that merges a block."""
        return Sizing().shard_queries * self.lines * self.measured.merge_bytes


def tables(measured: Measured) -> str:
    """The costs, and where they grow out of proportion."""
    lines = []
    for name, passages in PASSAGES.items():
        rows = [
            [
                work.name if work.name == "encode" else f"{work.name}, {QUERIES:,} queries",
                f"{work.inputs:,}",
                f"{work.rate:,.0f}",
                f"{work.shards:,}",
                *(_time(work.seconds(gpus)) for gpus in GPUS),
                f"{work.inputs / work.rate / GPUS[-1] / work.seconds(GPUS[-1]):.0%}",
                f"{work.shards * measured.shard_seconds:.1f} s",
            ]
            for work in works(passages)
            if work.name == "encode" or name == "8.8M"
        ]
        heads = ["", "inputs", "r, inputs/s", "shards", *(f"{gpus} GPU" for gpus in GPUS)]
        heads += [f"of {GPUS[-1]} at work", "driver's CPU"]
        lines += [f"{passages:,} passages", "", *markdown_table(heads, rows), ""]
    rows = []
    for name, passages in PASSAGES.items():
        for actors in GPUS:
            search = Search(passages, actors, measured)
            rows.append(
                [
                    f"{name}, {actors}",
                    _time(search.product_seconds),
                    _time(search.merge_seconds),
                    f"{search.merge_bytes / 2**30:.1f} GiB",
                ]
            )
    heads = ["exact search, actors", "products", "merge", "memory of a merging worker"]
    return "\n".join([*lines, *markdown_table(heads, rows), "", *limits(measured)])


def limits(measured: Measured) -> list[str]:
    """Where each part breaks, and at which number."""
    found = []
    for name, passages in PASSAGES.items():
        encode = works(passages)[0]
        searches = [Search(passages, actors, measured) for actors in range(1, MOST_ACTORS)]
        slower = _first(s.actors for s in searches if s.merge_seconds > s.product_seconds)
        large = _first(s.actors for s in searches if s.merge_bytes > NODE_BYTES)
        num_bytes = 2 * DIMENSIONS * passages
        check = num_bytes / measured.check_bytes
        found += [
            f"- {name}: a search's merge takes longer than its products from {slower} actors on; "
            f"a merging worker takes more than {NODE_BYTES >> 30} GiB from {large} on",
            f"- {name}: the check of {num_bytes / 1e9:.1f} GB of embeddings at publishing takes "
            f"{_time(check)}, as long as their encoding on "
            f"{encode.inputs / encode.rate / check:.0f} GPUs",
            f"- {name}: encoding has {encode.shards:,} shards, so no further GPU has work",
        ]
    for device, tokens in SHARD_TOKENS.items():
        least = min(work.gpus_per_driver(measured, tokens) for work in works(PASSAGES["8.8M"]))
        found.append(
            f"- shards of {tokens:,} tokens ({device}): the driver serves {least:,.0f} GPUs"
        )
    fitting = NODE_BYTES / (2 * DIMENSIONS)
    found.append(f"- a node's copies of a bucket, 64 GiB, are {fitting / 1e6:.1f}M vectors of 768")
    return found


def _first(actors: Iterator[int]) -> str:
    found = next(actors, None)
    return f"{found:,}" if found else f"no number below {MOST_ACTORS:,}"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6_000 else f"{seconds / 3600:.1f} h"


def measure(options) -> Measured:
    """Everything, each the median of some rounds, printed as it is found."""
    loop_ms = _loop(options)
    with tempfile.TemporaryDirectory() as scratch:
        ray_ms = median(_by_ray(Path(scratch), options) for _ in range(options.rounds))
        wait_ms = _waits(options)
        store_ms = _store(Path(scratch), options.shards)
        check_bytes = _check(Path(scratch), options)
        merge_seconds, merge_bytes = _merges(options)
    return Measured(loop_ms, ray_ms, wait_ms, store_ms, check_bytes, merge_seconds, merge_bytes)


def _loop(options) -> float:
    rows, last = [], 0.0
    for name, fates in (("calm", {}), ("with faults", FAULTS)):
        for actors in dict.fromkeys((1, max(1, options.actors // 8), options.actors)):
            for shards in (options.shards // 10, options.shards):
                found = [simulated(actors, shards, fates)[0] for _ in range(options.rounds)]
                _, held, report = simulated(actors, shards, fates, traced=True)
                rows.append([name, str(actors), f"{shards:,}", _spread(found)])
                mib = ", ".join(f"{each / 2**20:.2f}" for each in held)
                rows[-1] += [mib, str(report.num_second_tries)]
                last = last if fates else median(found)
    heads = ["loop", "actors", "shards", "ms a shard", "MiB at 10, 50, 90%", "second tries"]
    print("\n".join(markdown_table(heads, rows)), flush=True)
    return last


def _by_ray(scratch: Path, options) -> float:
    """scheduling.py's trial of real actors, shards of a tenth of a second."""
    actors = min(REAL_ACTORS, options.actors)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        command = [sys.executable, str(HERE / "scheduling.py"), "many", "--quick"]
        command += ["--trial", str(actors), "--folder", folder]
        command += ["--shards", str(max(2, options.shards // 200))]
        subprocess.run(command, check=True, capture_output=True)
        return json.loads(Path(folder, "told.json").read_text())["driver_ms"]


def _waits(options) -> tuple[float, float]:
    """As RayBackend.wait does, with one answer there and the others outstanding."""
    import ray

    from raypipe.cluster.ray_start import start_local

    local = start_local(num_cpus=1)
    try:

        @ray.remote(max_concurrency=options.actors + 16)
        class Silent:
            async def wait(self):
                import asyncio

                await asyncio.sleep(3600)

            async def now(self): ...

        actor, found = Silent.remote(), []
        for number in (REAL_ACTORS, options.actors):
            done = actor.now.remote()
            ray.get(done)
            refs = [*(actor.wait.remote() for _ in range(number - 1)), done]
            began = time.process_time()
            for _ in range(100):
                ray.wait(refs, num_returns=1, timeout=1)
                ray.wait(refs, num_returns=len(refs), timeout=0)
            found.append(10 * (time.process_time() - began))
        return found[0], found[1]
    finally:
        ray.kill(actor)
        local.close()


def _store(scratch: Path, num_shards: int) -> float:
    """The driver's part; the workers' commits are made here without fsync."""
    storage, shards = PosixStorage(scratch / "stores"), ranges(num_shards, 1)
    payload = scratch / "payload"
    payload.write_bytes(b"")
    began = time.process_time()
    ledger = Ledger(storage, "out", StageSpec("many", 1), shards)
    ledger.pending()
    for shard in shards:
        ledger.note({"event": "done", "shard": shard.index, "seconds": 1.0, "copied": 0})
    used = time.process_time() - began
    with patch("os.fsync"):
        for shard in shards:
            ledger.commit(shard, payload, {"rows": 1})
    began = time.process_time()
    ledger.publish()
    return 1000 * (used + time.process_time() - began) / num_shards


def _check(scratch: Path, options) -> float:
    data = os.urandom(1 << 20) * (options.mib or 1)
    sha256 = hashlib.sha256(data).hexdigest()
    storage, file = PosixStorage(scratch / "blobs"), scratch / "blob"
    file.write_bytes(data)
    storage.put(sha256, file)
    found = []
    for _ in range(options.rounds):
        began = time.process_time()
        storage.check(sha256)
        found.append(len(data) / (time.process_time() - began))
    return median(found)


def _merges(options) -> tuple[float, float]:
    """A line's seconds and bytes: two sizes, each in a process of its own."""
    told = []
    for queries in (options.queries, 4 * options.queries):
        command = [sys.executable, __file__, "--merge", str(queries)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        told.append(json.loads(done.stdout))
    (few, first, least), (many, last, most) = told
    return (last - first) / (many - few), max(0.0, most - least) / (many - few)


def _merge(num_queries: int) -> None:
    """Print lines, CPU seconds and the largest memory of a merge of 16 spans."""
    spans, generator = 16, np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as scratch:
        asked = np.repeat(np.arange(num_queries, dtype=np.int32), DEPTH)

        def part(span: int) -> pa.Table:
            rows = generator.integers(0, 1 << 20, len(asked)) + (span << 20)
            scores = generator.standard_normal(len(asked)).astype(np.float32)
            return best(run_table(asked, rows, scores, scored_by="d"), depth=DEPTH, scored_by="d")

        storage, file = PosixStorage(Path(scratch) / "stores"), Path(scratch) / "run"
        shards = [Shard(i, 0, num_queries, i << 20, (i + 1) << 20) for i in range(spans)]
        ledger = Ledger(storage, "parts", StageSpec("parts", 1), shards)
        for shard in shards:
            rows = write_table(file, schema.RUN, [part(shard.index)])
            ledger.commit(shard, file, {"rows": rows})
        parts = Stored(storage, ledger.publish())
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        made = best(read_queries_of_run(parts, 0, num_queries), depth=DEPTH, scored_by="d")
        write_table(file, schema.RUN, [made])
        used = time.process_time() - began
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([spans * len(asked), used, 1024 * max(most, before)]))


def _spread(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=int, default=10_000)
    parser.add_argument("--actors", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queries", type=int, default=100, help="of the smaller merge")
    parser.add_argument("--mib", type=int, default=256, help="of the payload that is checked")
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--merge", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.merge:
        _merge(options.merge)
        return 0
    if options.kept and options.kept.exists():
        measured = Measured(**json.loads(options.kept.read_text()))
    else:
        measured = measure(options)
        if options.kept:
            options.kept.write_text(json.dumps(asdict(measured)))
    few, many = measured.wait_ms
    print(
        f"\na shard: {measured.loop_ms:.2f} ms of the loop alone, {measured.ray_ms:.2f} with "
        f"{REAL_ACTORS} actors of Ray, {few:.2f} and {many:.2f} to wait for {REAL_ACTORS} and "
        f"{options.actors} answers, "
        f"{measured.store_ms:.2f} of its store; {1000 * measured.shard_seconds:.2f} in all\n"
        f"a payload is checked at {measured.check_bytes / 1e9:.2f} GB/s; a line is merged in "
        f"{1e6 * measured.merge_seconds:.2f} us and {measured.merge_bytes:.0f} bytes\n"
    )
    print(tables(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
