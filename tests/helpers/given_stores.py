"""Stores of given tables, and a stage run to its finished store."""

import itertools

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.stages.ids import ids_stage
from raypipe.stages.stage import Site, Sizing
from raypipe.stages.tables import Sides
from raypipe.storage.ledger import Ledger, read_manifest
from raypipe.storage.payloads import write_table, write_tokens, write_vectors
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

VERSIONS = {
    "aggregate": 2,
    "ann-codes": 1,
    "ann-hnsw": 1,
    "ann-recall": 1,
    "ann-search": 1,
    "ann-train": 1,
    "bm25": 1,
    "candidates": 1,
    "count": 2,
    "documents": 1,
    "documents-run": 1,
    "encode": 2,
    "examples": 6,
    "excluded": 1,
    "fuse": 1,
    "homes": 1,
    "ids": 2,
    "impact-index": 1,
    "impact-search": 1,
    "map": 1,
    "named-documents": 1,
    "pairs": 1,
    "passages": 1,
    "passages-run": 1,
    "prepare": 1,
    "queries": 2,
    "read": 2,
    "rerank": 1,
    "score": 1,
    "search": 1,
    "search-parts": 1,
    "sparse-parts": 1,
    "split": 1,
    "stretches": 1,
    "tokenize": 2,
    "tokenize-passages": 2,
    "truncate": 1,
    "tune": 1,
    "windows": 1,
}
"""Of every stage's output. One that rises is a decision: what was stored is computed anew."""


class Stores:
    """Makes published stores in one folder."""

    def __init__(self, folder):
        self.storage = PosixStorage(folder / "stores")
        self.scratch = folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self._numbers = itertools.count()

    def _publish(self, shards, write, facts, skipped=()):
        number = next(self._numbers)
        spec = StageSpec("given", 1, {"number": number})
        ledger = Ledger(self.storage, f"given{number}", spec, shards)
        for place, shard in enumerate(shards):
            file = self.scratch / f"given-{number}-{place}"
            write(place, file)
            bad = [row for row in skipped if shard.start <= row < shard.stop]
            extra = {"skipped_rows": bad} if bad else {}
            ledger.commit(shard, file, {**facts(place), **extra})
        return Stored(self.storage, ledger.publish(max_failed_rows=len(skipped)))

    def tables(self, columns, *tables, ranges=None, facts=None, skipped=()):
        """A store of tables of one schema, a shard each; ranges: of queries, where not of rows."""
        made = [
            table if isinstance(table, pa.Table) else pa.table(table, schema=columns)
            for table in tables
        ]
        edges = np.cumsum([0, *map(len, made)]).tolist()
        spans = ranges or list(itertools.pairwise(edges))
        shards = [Shard(i, a, b) for i, (a, b) in enumerate(spans)]
        told = facts or [{"rows": len(table)} for table in made]
        return self._publish(
            shards,
            lambda place, file: write_table(file, columns, [made[place]]),
            lambda place: told[place],
            skipped,
        )

    def passages(self, *texts_of_shards):
        """A collection: passage n has the id `pN`."""
        first, tables = 0, []
        for texts in texts_of_shards:
            tables.append([[f"p{first + i}" for i in range(len(texts))], list(texts)])
            first += len(texts)
        return self.tables(schema.PASSAGES, *tables)

    def queries(self, *texts):
        """A query set: query n has the id `qN`."""
        return self.tables(schema.QUERIES, [[f"q{i}" for i in range(len(texts))], list(texts)])

    def sides(self, num_queries):
        """What a ranking is of: so many queries, and a collection of one passage."""
        return Sides(self.queries(*"x" * num_queries), self.passages(["y"]))

    def run(self, *blocks, scored_by="bm25"):
        """A run, a block of lines (query, passage, score) a shard, best first."""
        tables, ranges = [], []
        first = 0
        for block in blocks:
            ranks, seen = [], {}
            for query, _, _ in block:
                seen[query] = seen.get(query, 0) + 1
                ranks.append(seen[query])
            queries, rows, scores = ([line[i] for line in block] for i in range(3))
            tables.append([queries, rows, ranks, scores, [scored_by] * len(block)])
            stop = max(queries, default=first - 1) + 1
            ranges.append((first, stop))
            first = stop
        return self.tables(schema.RUN, *tables, ranges=ranges)

    def tokens(self, *shards_of_rows, dtype=np.uint16):
        """Word pieces, a list of rows a shard; in uint32 impacts."""
        counts = [len(rows) for rows in shards_of_rows]
        edges = np.cumsum([0, *counts]).tolist()

        def write(place, file):
            rows = shards_of_rows[place]
            flat = np.array([piece for row in rows for piece in row], dtype)
            offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
            write_tokens(file, flat, offsets)

        shards = [Shard(i, a, b) for i, (a, b) in enumerate(itertools.pairwise(edges))]
        pieces = [sum(map(len, rows)) for rows in shards_of_rows]
        return self._publish(
            shards, write, lambda place: {"rows": counts[place], "pieces": pieces[place]}
        )

    def vectors(self, *arrays, skipped=(), classes=None):
        """Embeddings, an array a shard; classes: the numerics class of each shard."""
        edges = np.cumsum([0, *map(len, arrays)]).tolist()
        shards = [Shard(i, a, b) for i, (a, b) in enumerate(itertools.pairwise(edges))]
        return self._publish(
            shards,
            lambda place, file: write_vectors(file, np.asarray(arrays[place], np.float16)),
            lambda place: {
                "rows": len(arrays[place]),
                "numerics": classes[place] if classes else "test",
            },
            skipped,
        )

    def finished(self, stage, sizing=None, *, skip=(), beats=None, store=None):
        """The store of a stage whose every shard was run here, in a plain loop.

        `num_copied` is then how many of its rows were copied.
        """
        told = beats if beats is not None else []
        assert stage.spec.semantics == VERSIONS[stage.spec.stage]
        site = Site(self.storage.scratch())
        shards = stage.shards(sizing or Sizing())
        name = store or f"made{next(self._numbers)}"
        ledger = Ledger(self.storage, name, stage.spec, shards)
        opened = stage.open(site)
        self.num_copied = 0
        for shard in shards:
            own = [row for row in skip if shard.start <= row < shard.stop]
            payload = opened.run(shard, own, lambda rows: told.append(list(rows)))
            extra = {"skipped_rows": own} if own else {}
            ledger.commit(shard, payload.path, {**payload.facts, **extra})
            self.num_copied += payload.num_copied
        return Stored(self.storage, ledger.publish(max_failed_rows=len(skip)))

    def hashes(self, collection):
        """The hashes of a collection's texts, named as in a pipeline, where others find them."""
        return self.finished(ids_stage(collection), store="ids@collection")

    def reopened(self, store, fingerprint):
        """A published store of this folder that another process made."""
        return Stored(self.storage, read_manifest(self.storage, store, fingerprint))
