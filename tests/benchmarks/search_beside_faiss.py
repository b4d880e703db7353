"""Exact search beside sgemm's own rate and beside faiss.

    python tests/benchmarks/search_beside_faiss.py share [--rows 1000000] [--threads 1] [--rounds 5]
    python tests/benchmarks/search_beside_faiss.py faiss [--rows 300000]

`share`: raypipe streams fp16 shards of 100,000 rows from mapped files; beside it the products
alone, in the library and the block size that are fastest here. `faiss`: one thread, queries in
batches of 32, 64 and 128, against `IndexFlatIP` with its own settings, which holds the vectors as
fp32.

Random unit vectors of 768 dimensions. Before any time is taken, ids and scores are compared with
float64 products. Rounds alternate in order. A share or ratio is that of one round, its median with
the range; the last column is raypipe against itself. CPU time of all threads.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

DIM, DEPTH, SHARD_ROWS = 768, 1000, 100_000


def main() -> int:
    options = _options()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
    import faiss
    import numpy as np
    import torch

    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        shards = _shards(Path(folder), options.rows)
        queries = _unit(np.random.default_rng(1), options.queries)
        _refuse_other(shards, queries)
        versions = {"numpy": np.__version__, "torch": torch.__version__, "faiss": faiss.__version__}
        print(json.dumps({**vars(options), **versions}), flush=True)
        (share if options.part == "share" else beside_faiss)(shards, queries, options)
    return 0


def share(shards, queries, options) -> None:
    """Seconds of the products and of the search, and their share, in CPU and in wall time."""
    work = {"search": lambda: search(shards, queries, options.threads)}
    products, name = _fastest_products(shards, queries)
    print(f"fastest products: {name}", flush=True)
    work |= {"products": products, "again": work["search"]}
    took = _rounds(work, options.rounds)
    flops = 2 * options.rows * DIM * len(queries)
    for clock in ("cpu", "wall"):
        seconds = {kind: [one[clock] for one in rounds] for kind, rounds in took.items()}
        rate = flops / statistics.median(seconds["products"]) / 1e9
        print(
            f"{clock}: products {_spread(seconds['products'])} s ({rate:.0f} GFLOP/s), "
            f"search {_spread(seconds['search'])} s, "
            f"share {_ratio(seconds['products'], seconds['search'])}, "
            f"search against itself {_ratio(seconds['again'], seconds['search'])}",
            flush=True,
        )


def beside_faiss(shards, queries, options) -> None:
    """CPU seconds of one batch, of raypipe and of faiss with its own settings."""
    import faiss
    import numpy as np

    index = faiss.IndexFlatIP(DIM)
    for _, vectors in shards:
        index.add(vectors.astype(np.float32))
    for size in (32, 64, 128):
        batch = queries[:size]
        floats = batch.astype(np.float32)
        own = lambda batch=batch: search(shards, batch, options.threads)  # noqa: E731
        theirs = lambda floats=floats: index.search(floats, DEPTH)  # noqa: E731
        took = _rounds({"own": own, "faiss": theirs, "again": own}, options.rounds)
        seconds = {kind: [one["cpu"] for one in rounds] for kind, rounds in took.items()}
        print(
            f"batch {size}: raypipe {_spread(seconds['own'])} s, faiss {_spread(seconds['faiss'])} "
            f"s, {_ratio(seconds['faiss'], seconds['own'])} times as fast, against itself "
            f"{_ratio(seconds['again'], seconds['own'])}",
            flush=True,
        )


def search(shards, queries, threads):
    from raypipe.engines.exact.search import topk_block_stream
    from raypipe.stages.products import TorchProducts

    return topk_block_stream(queries, shards, depth=DEPTH, products=TorchProducts(threads))


def _fastest_products(shards, queries):
    """The products of all rows with the queries, by the faster library and its best block."""
    import numpy as np
    import torch

    floats, rows = queries.astype(np.float32), sum(len(vectors) for _, vectors in shards)
    vectors = shards[0][1].astype(np.float32)
    ways = {}
    for block in (1024, 8192, 65536):
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
    took = {
        name: min(_timed(lambda w=way: w(1 << 17))["cpu"] for _ in range(3))
        for name, way in ways.items()
    }
    name = min(took, key=took.get)
    size = int(name.split()[1])
    return (lambda: ways[name](-(-rows // size) * size)), f"{name}; all: {took}"


def _rounds(work, num):
    took = {name: [] for name in work}
    for turn in range(num):
        for name in sorted(work, reverse=turn % 2 == 1):
            took[name].append(_timed(work[name]))
    return took


def _timed(work) -> dict[str, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def _spread(values) -> str:
    return f"{statistics.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]"


def _ratio(ones, others) -> str:
    return _spread([one / other for one, other in zip(ones, others, strict=True)])


def _unit(rng, num):
    import numpy as np

    vectors = rng.standard_normal((num, DIM), np.float32)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def _shards(folder: Path, num_rows: int):
    import numpy as np

    shards = []
    for first in range(0, num_rows, SHARD_ROWS):
        path = folder / f"{first}.npy"
        np.save(path, _unit(np.random.default_rng([2, first]), min(SHARD_ROWS, num_rows - first)))
        shards.append((first, np.load(path, mmap_mode="r")))
    return shards


def _refuse_other(shards, queries) -> None:
    """Compares the first shard's search of 8 queries with float64 products, bit by bit."""
    import numpy as np

    some, (_, vectors) = queries[:8], shards[0]
    rows, scores = search(shards[:1], some, 1)
    exact = (some.astype("f8") @ vectors.astype("f8").T).astype("f4")
    order = np.argsort(-exact, axis=1, kind="stable")[:, :DEPTH]
    assert np.array_equal(rows, order)
    assert np.array_equal(scores, np.take_along_axis(exact, order, 1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["share", "faiss"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", default=None)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
