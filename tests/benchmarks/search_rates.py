"""Exact search beside the products alone and beside faiss: what two commands measure.

`search_beside_faiss.py` does so at any size, `jobs/benchmark.py --part search` at one. Vectors are
random, of length 1, in mapped fp16 shards. faiss holds them as fp32 in memory, with its own
settings. Rounds alternate in order; a ratio is that of one round. CPU and wall time of the process.
"""

import statistics
import time
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch

from raypipe.engines.exact import topk_block_stream
from raypipe.stages.products import TorchProducts, coarse_products

BLOCKS = (1024, 8192, 65536)
"""Rows of a product alone; the fastest counts."""
TRIED_ROWS = 1 << 17
LEFT_OUT = "search beside IndexFlatIP: faiss is not installed"


@dataclass(frozen=True)
class Size:
    rows: int = 200_000
    dim: int = 768
    depth: int = 1000
    queries: int = 500
    batches: tuple = (32, 64, 128)
    shard_rows: int = 100_000
    threads: int = 1
    rounds: int = 5


QUICK = Size(rows=3000, dim=32, depth=20, queries=16, batches=(2, 8), shard_rows=1000, rounds=2)


def measured_search(size, folder, until=float("inf"), known=None):
    """What search takes beside the products alone and, where it is installed, beside faiss.

    `known` names the fastest way of products, if an earlier run on this machine found it. No round
    begins after `until` (time.monotonic), but each comparison has one.
    """
    shards = made_shards(folder, size)
    queries = unit(np.random.default_rng(1), size.queries, size.dim)
    refuse_other(shards, queries, size)
    found = {
        "size": {**vars(size)},
        "products": beside_products(shards, queries, size, until, known),
    }
    if find_spec("faiss") is None:
        return {**found, "left_out": LEFT_OUT}
    return {**found, "faiss": beside_faiss(shards, queries, size, until)}


def beside_products(shards, queries, size, until=float("inf"), known=None):
    """A search of all queries, and the products of all rows with them."""
    products, name, tried = fastest_products(shards, queries, size, known)
    own = lambda: search(shards, queries, size)  # noqa: E731
    took = rounds({"own": own, "other": products, "again": own}, size.rounds, until)
    flops = 2 * size.rows * size.dim * len(queries)
    rate = flops / statistics.median(one["cpu"] for one in took["other"])
    return {"way": name, "tried": tried, "operations_per_second": rate, **compared(took)}


def beside_faiss(shards, queries, size, until=float("inf")):
    """By the number of queries in a batch: a search, and faiss's."""
    import faiss

    faiss.omp_set_num_threads(size.threads)
    index = faiss.IndexFlatIP(size.dim)
    for _, vectors in shards:
        index.add(vectors.astype(np.float32))
    batches = {}
    for number, some in enumerate(size.batches):
        batch, floats = queries[:some], queries[:some].astype(np.float32)
        own = lambda batch=batch: search(shards, batch, size)  # noqa: E731
        theirs = lambda floats=floats: index.search(floats, size.depth)  # noqa: E731
        left = until - time.monotonic()
        own_until = time.monotonic() + left / (len(size.batches) - number)
        took = rounds({"own": own, "other": theirs, "again": own}, size.rounds, own_until)
        batches[str(some)] = compared(took)
    return {"version": faiss.__version__, "batches": batches}


def compared(took):
    """Seconds of both sides and their ratios, [median, least, largest], in CPU and wall time."""
    found = {"rounds": len(took["own"])}
    for clock in ("cpu", "wall"):
        own, other, again = ([one[clock] for one in took[k]] for k in ("own", "other", "again"))
        found[clock] = {
            "raypipe_seconds": spread(own),
            "other_seconds": spread(other),
            "other_takes": ratio(other, own),
            "against_itself": ratio(again, own),
        }
    return found


def search(shards, queries, size):
    return topk_block_stream(
        queries,
        shards,
        depth=size.depth,
        products=TorchProducts(size.threads),
        coarse=coarse_products("cpu", size.threads),
    )


def fastest_products(shards, queries, size, known=None):
    """(the products of all rows with the queries, by the faster library and its best block; which
    that is; the seconds of each way)."""
    floats = queries.astype(np.float32)
    vectors = shards[0][1].astype(np.float32)
    ways = {}
    for block in dict.fromkeys(min(block, len(vectors)) for block in BLOCKS):
        some = vectors[:block]
        out = np.empty((len(queries), len(some)), np.float32)
        of_torch = [torch.from_numpy(array) for array in (floats, some, out)]

        def numpy(num, some=some, out=out):
            for _ in range(num // len(some)):
                np.matmul(floats, some.T, out=out)

        def pytorch(num, some=some, of_torch=of_torch):
            for _ in range(num // len(some)):
                torch.mm(of_torch[0], of_torch[1].T, out=of_torch[2])

        ways |= {f"numpy, {block} rows": numpy, f"torch, {block} rows": pytorch}
    took = {}
    if known not in ways:
        rows = min(TRIED_ROWS, size.rows)
        took = {
            name: min(timed(lambda w=way: w(rows))["cpu"] for _ in range(3))
            for name, way in ways.items()
        }
        known = min(took, key=took.get)
    block = int(known.split()[1])
    return (lambda: ways[known](-(-size.rows // block) * block)), known, took


def rounds(work, number, until=float("inf")):
    """The times of each work in so many rounds, in alternating order; one round at least."""
    took = {name: [] for name in work}
    for turn in range(number):
        if turn and time.monotonic() > until:
            break
        for name in sorted(work, reverse=turn % 2 == 1):
            took[name].append(timed(work[name]))
    return took


def timed(work):
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def spread(values):
    return [statistics.median(values), min(values), max(values)]


def ratio(ones, others):
    return spread([one / other for one, other in zip(ones, others, strict=True)])


def unit(rng, num, dim):
    vectors = rng.standard_normal((num, dim), np.float32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def made_shards(folder, size):
    """(first row, vectors) of each shard, mapped."""
    shards = []
    for first in range(0, size.rows, size.shard_rows):
        path = folder / f"{first}.npy"
        number = min(size.shard_rows, size.rows - first)
        np.save(path, unit(np.random.default_rng([2, first]), number, size.dim))
        shards.append((first, np.load(path, mmap_mode="r")))
    return shards


def refuse_other(shards, queries, size):
    """Compares the first shard's search of 32 queries with float64 products, bit by bit.

    Raises:
        SystemExit: they differ, so nothing is timed.
    """
    some, (_, vectors) = queries[:32], shards[0]
    rows, scores = search(shards[:1], some, size)
    exact = (some.astype("f8") @ vectors.astype("f8").T).astype("f4")
    order = np.argsort(-exact, axis=1, kind="stable")[:, : size.depth]
    same = np.array_equal(rows, order)
    if not (same and np.array_equal(scores, np.take_along_axis(exact, order, 1))):
        raise SystemExit("exact search: rows or scores are not those in float64; not timed")
