"""Costs of large collections: arithmetic over measurements of scaling.py and others' GPU rates."""

import math
from dataclasses import dataclass

from raypipe.driver.place import SHARD_TOKENS
from raypipe.markdown import markdown_table
from raypipe.stages.stage import Sizing

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
        searches = (Search(passages, actors, measured) for actors in range(1, encode.shards))
        beyond = (s.actors for s in searches if s.merge_seconds > s.product_seconds)
        slower = next(beyond, "no number of")
        most = Search(passages, encode.shards, measured).merge_bytes / 2**30
        num_bytes = 2 * DIMENSIONS * passages
        check = num_bytes / measured.check_bytes
        found += [
            f"- {name}: a search's merge takes longer than its products from {slower} actors on; "
            f"a merging worker takes up to {most:.1f} GiB, at {encode.shards // 2:,} actors",
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


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6_000 else f"{seconds / 3600:.1f} h"
