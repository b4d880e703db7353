"""What large collections cost on many GPUs, and what breaks first: measured parts, and arithmetic.

    python tests/benchmarks/scaling.py [--shards 10000] [--actors 512] [--rounds 3] [--kept FILE]

Measured in CPU time of the process: the loop with simulated actors on a virtual clock (with faults
too, and what Python holds as the shards end), Ray's calls for a shard by real actors and for many
outstanding answers, a store's records, a payload's check, and the merge of a search. The rest is
arithmetic (scaling_costs.py) with others' rates of GPUs; raypipe has measured none. --kept keeps
the measurements, and takes them from the file if it is there.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np
import pyarrow as pa

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "helpers"))
from scaling_costs import DEPTH, Measured, tables  # noqa: E402
from scheduling_simulated import FAULTS, simulated  # noqa: E402

from raypipe import schema  # noqa: E402
from raypipe.markdown import markdown_table  # noqa: E402
from raypipe.stages.run_tables import best, read_queries_of_run, run_table  # noqa: E402
from raypipe.stages.stage import ranges  # noqa: E402
from raypipe.storage.ledger import Ledger  # noqa: E402
from raypipe.storage.payloads import write_table  # noqa: E402
from raypipe.storage.posix import PosixStorage  # noqa: E402
from raypipe.storage.records import Shard  # noqa: E402
from raypipe.storage.spec import StageSpec  # noqa: E402
from raypipe.storage.store import Stored  # noqa: E402

REAL_ACTORS = 8


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
    """A line's seconds and bytes, by two sizes, each in a process of its own."""
    slopes = []
    for _ in range(options.rounds):
        told = []
        for queries in (options.queries, 4 * options.queries):
            command = [sys.executable, __file__, "--merge", str(queries)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            told.append(json.loads(done.stdout))
        (few, first, least), (many, last, most) = told
        slopes.append(((last - first) / (many - few), max(0.0, most - least) / (many - few)))
    seconds, num_bytes = zip(*slopes, strict=True)
    return median(seconds), median(num_bytes)


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
    parser.add_argument("--queries", type=int, default=250, help="of the smaller merge")
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
