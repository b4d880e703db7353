"""Exact search beside sgemm's own rate and beside faiss.

    python tests/benchmarks/search_beside_faiss.py share [--rows 1000000] [--threads 1] [--rounds 5]
    python tests/benchmarks/search_beside_faiss.py faiss [--rows 300000]

`share`: raypipe streams fp16 shards of 100,000 rows from mapped files; beside it the products
alone, in the library and the block size that are fastest here. `faiss`: one thread, queries in
batches of 32, 64 and 128, against `IndexFlatIP` with its own settings, which holds the vectors as
fp32.

Random unit vectors of 768 dimensions. Before any time is taken, ids and scores are compared with
float64 products. `search_rates.py` says how times are taken.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path


def main(arguments=None):
    options = _options(arguments)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
    import faiss
    import numpy as np
    import search_rates as rates
    import torch

    torch.set_num_threads(options.threads)
    size = rates.Size(
        rows=options.rows, queries=options.queries, threads=options.threads, rounds=options.rounds
    )
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        shards = rates.made_shards(Path(folder), size)
        queries = rates.unit(np.random.default_rng(1), size.queries, size.dim)
        rates.refuse_other(shards, queries, size)
        versions = {"numpy": np.__version__, "torch": torch.__version__, "faiss": faiss.__version__}
        print(json.dumps({**vars(options), **versions}), flush=True)
        if options.part == "share":
            share(rates.beside_products(shards, queries, size))
        else:
            beside_faiss(rates.beside_faiss(shards, queries, size))
    return 0


def share(found):
    """Prints seconds of the products and of the search, and their share, in CPU and wall time."""
    print(f"fastest products: {found['way']}; all: {found['tried']}")
    for clock in ("cpu", "wall"):
        told = found[clock]
        print(
            f"{clock}: products {_spread(told['other_seconds'])} s "
            f"({found['operations_per_second'] / 1e9:.0f} GFLOP/s of CPU time), "
            f"search {_spread(told['raypipe_seconds'])} s, share {_spread(told['other_takes'])}, "
            f"search against itself {_spread(told['against_itself'])}"
        )


def beside_faiss(found):
    """Prints CPU seconds of one batch, of raypipe and of faiss with its own settings."""
    for size, both in found["batches"].items():
        told = both["cpu"]
        print(
            f"batch {size}: raypipe {_spread(told['raypipe_seconds'])} s, faiss "
            f"{_spread(told['other_seconds'])} s, {_spread(told['other_takes'])} times as fast, "
            f"against itself {_spread(told['against_itself'])}"
        )


def _spread(found):
    return "{:.2f} [{:.2f}, {:.2f}]".format(*found)


def _options(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["share", "faiss"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scratch", default=None)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
