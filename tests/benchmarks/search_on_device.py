"""Exact search on a GPU over as many vectors as MS MARCO has passages, for jobs/benchmark.py.

Vectors are random, of length 1, made on the device and held as fp16 by the host, as mapped shards
are after they were read once. The whole search is timed: copies to the device, products, selection
there, and exact scores on the host. Beside it are the products alone, over vectors on the device.
"""

import os
import statistics
import time
from dataclasses import dataclass

import torch
from forward import seconds_of

from raypipe.engines.exact import topk_block_stream
from raypipe.engines.exact_scores import NumpyProducts
from raypipe.models.machine.precision import set_products
from raypipe.stages.products import DeviceProducts, TorchProducts


@dataclass(frozen=True)
class Size:
    rows: int = 8_841_823
    dim: int = 768
    depth: int = 1000
    queries: int = 6980
    shard_rows: int = 1 << 20
    compared: int = 64
    """Queries whose lists over the first shard are compared with the CPU's."""
    rounds: int = 2


QUICK = Size(rows=3000, dim=32, depth=20, queries=40, shard_rows=1024, compared=16)


class Timed(DeviceProducts):
    """That says how long the device's part took."""

    seconds = 0.0

    def candidates(self, *given, **named):
        began = time.perf_counter()
        try:
            return super().candidates(*given, **named)
        finally:
            self.seconds += time.perf_counter() - began


def measured_on_device(size, device, until):
    """Seconds of the search and of the products alone, medians; no round begins after `until`.

    Raises:
        SystemExit: rows or scores of the first shard are not the CPU's.
    """
    draw = torch.Generator(device).manual_seed(3)
    shards, first = [], 0
    while first < size.rows:
        number = min(size.shard_rows, size.rows - first)
        shards.append((first, unit(number, size.dim, draw, device).cpu().numpy()))
        first += number
    queries = unit(size.queries, size.dim, draw, device).cpu().numpy()
    threads = os.cpu_count() or 1
    some = queries[: size.compared], shards[:1]
    own = topk_block_stream(*some, depth=size.depth, coarse=DeviceProducts(device, threads))
    cpus = topk_block_stream(*some, depth=size.depth, products=NumpyProducts())
    if any(one.tobytes() != other.tobytes() for one, other in zip(own, cpus, strict=True)):
        raise SystemExit("exact search on the device: not the CPU's rows or scores; not timed")
    whole, there, second = [], [], []
    for number in range(size.rounds):
        if number and time.monotonic() > until:
            break
        coarse, began = Timed(device, threads), time.perf_counter()
        topk_block_stream(
            queries,
            shards,
            depth=size.depth,
            products=TorchProducts(threads),
            coarse=coarse,
            on_second_pass=second.append,
        )
        whole.append(time.perf_counter() - began)
        there.append(coarse.seconds)
    alone = products_alone(queries, shards, device)
    seconds = statistics.median(whole)
    return {
        "size": {**vars(size)},
        "threads": threads,
        "rounds": len(whole),
        "seconds": seconds,
        "on_device_seconds": statistics.median(there),
        "products_seconds": alone,
        "queries_in_a_second_pass": sum(second),
        "queries_per_second": size.queries / seconds,
    }


def unit(number, dim, draw, device):
    """Random vectors of length 1, fp16 [number, dim], on the device."""
    vectors = torch.randn(number, dim, generator=draw, device=device)
    return torch.nn.functional.normalize(vectors, dim=1).half()


def products_alone(queries, shards, device):
    """Seconds of the float32 products of the queries with all rows, whose values lie there."""
    set_products()
    asked = torch.from_numpy(queries).to(device).float()
    rows = max(1, (1 << 28) // len(queries))
    vectors = torch.from_numpy(shards[0][1][:rows]).to(device).float()
    products = asked @ vectors.T
    num_rows = sum(len(some) for _, some in shards)

    def run():
        for _ in range(0, num_rows, len(vectors)):
            torch.mm(asked, vectors.T, out=products)

    return seconds_of(run, device)
