"""A collection as long as several of Lucene's buffers."""

import numpy as np
import pyarrow as pa
from quick_java import quickly

from raypipe import schema
from raypipe.engines.lucene.index import build_index
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

NUM_PASSAGES = 6_000


EMPTY_EVERY = 997


TWIN_EVERY = 150
"""Rows whose texts are equal, so that BM25 ties them."""


def text_of(row):
    """Lengths grow and shrink; words of its own, shared words, now and then nothing at all."""
    if row % EMPTY_EVERY == 5:
        return ""
    if row % TWIN_EVERY == 0:
        return "zebra crossing"
    length = 1 + round(20 * (1 + np.sin(row / 600)))
    shared = [f"w{(row * 31 + n * n) % 900}" for n in range(length)]
    own = [f"own{row}", *(f"own{row}x{n}" for n in range(length))]
    return " ".join([*own, *shared])


def id_of(row):
    return f"p{row}-\N{ZEBRA FACE}é"


def passages(start, stop):
    rows = range(start, stop)
    columns = [[id_of(row) for row in rows], [text_of(row) for row in rows]]
    return pa.table(columns, schema=schema.PASSAGES)


def all_passages():
    return (passages(start, start + 2_000) for start in range(0, NUM_PASSAGES, 2_000))


FILLED = [row for row in range(NUM_PASSAGES) if text_of(row)]


def build_long_index(folder):
    """An index whose segments were written several times before they became one."""
    beats = []
    with quickly():
        num_indexed = build_index(
            all_passages, folder, beat=lambda: beats.append(1), buffer_megabytes=1
        )
    assert num_indexed == len(FILLED)
    assert beats
    return folder


def commit(storage, name, payloads, spec=None):
    """A store with one shard a payload: (path, rows)."""
    edges = np.cumsum([0, *(rows for _, rows in payloads)]).tolist()
    shards = [Shard(n, edges[n], edges[n + 1]) for n in range(len(payloads))]
    ledger = Ledger(storage, name, spec or StageSpec(name, 1), shards)
    for shard, (path, rows) in zip(shards, payloads, strict=True):
        ledger.commit(shard, path, {"rows": rows})
    return Stored(storage, ledger.publish())
