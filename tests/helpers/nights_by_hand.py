"""Generations of made-up embeddings: each vector is a function of model, machine and text."""

from hashlib import sha256
from itertools import groupby

import numpy as np
import pyarrow as pa

from raypipe import schema
from raypipe.stages.ids import ids_stage
from raypipe.stages.stage import Site, Sizing
from raypipe.storage.generations import Generation, create_generation, next_number
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads import write_table, write_vectors
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard, canonical, digest
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

DIM = 4


def vector(model, machine, text):
    return np.frombuffer(sha256(f"{model} {machine} {text}".encode()).digest()[:DIM], np.uint8)


class Nights:
    """The line of generations `nightly` in a root of stores."""

    def __init__(self, folder):
        self.root = folder / "stores"
        self.storage = PosixStorage(self.root)
        self.states = {}
        """Number of a generation -> its model, and id -> (text, vector) of what has a vector."""

    def add(self, passages, model="minilm"):
        """A generation of passages, id -> (text, machine); without a machine in quarantine."""
        content = [[name, *passage] for name, passage in passages.items()]
        table = pa.table(
            [list(passages), [t for t, _ in passages.values()]], schema=schema.PASSAGES
        )
        collection = self._stored(
            "passages@collection",
            StageSpec("prepare", 1, {"content": digest(canonical(content))}, produces="passages"),
            [len(passages)],
            lambda shard, file: write_table(file, schema.PASSAGES, [table]),
        )
        ids = self._run("ids@collection", ids_stage(collection))
        tokens = self._stored(
            "tokens@minilm",
            spec_over("tokenize", 2, {}, {"texts": collection}, produces="tokens"),
            [len(passages)],
            lambda shard, file: file.write_text("word pieces"),
        )
        machines = [machine or "cpu" for _, machine in passages.values()]
        rows = [vector(model, machine, text) for text, machine in passages.values()]
        embeddings = self._stored(
            "vectors",
            spec_over(
                "encode",
                2,
                {"side": "passage", "weights_sha256": model},
                {"tokens": tokens},
                produces="vectors",
                reuse_key=model,
            ),
            [len(list(group)) for _, group in groupby(machines)],
            lambda shard, file: write_vectors(
                file, np.array(rows[shard.start : shard.stop], np.float16)
            ),
            lambda shard: {"numerics": machines[shard.start]},
            [row for row, (_, machine) in enumerate(passages.values()) if machine is None],
        )
        state = {
            name: (text, tuple(vector(model, machine, text).tolist()))
            for name, (text, machine) in passages.items()
            if machine is not None
        }
        stores = [collection, ids, tokens, embeddings]
        return self._publish(
            {s.manifest.store: s.manifest.fingerprint for s in stores}, model, state
        )

    def go_back(self, stores, number):
        """A generation with the content of an older one."""
        return self._publish(stores, *self.states[number])

    def _publish(self, stores, model, state):
        number = next_number(self.storage, "nightly")
        assert create_generation(self.storage, Generation("nightly", number, stores))
        self.states[number] = model, state
        return number

    def _stored(self, name, spec, sizes, write, facts=lambda shard: {}, skipped=()):
        edges = np.cumsum([0, *sizes]).tolist()
        shards = [Shard(i, a, b) for i, (a, b) in enumerate(zip(edges, edges[1:], strict=False))]
        ledger = Ledger(self.storage, name, spec, shards)
        for shard in ledger.pending():
            file = self.storage.scratch() / "file"
            write(shard, file)
            bad = [row for row in skipped if shard.start <= row < shard.stop]
            extra = {"skipped_rows": bad} if bad else {}
            ledger.commit(shard, file, {"rows": shard.num_rows, **facts(shard), **extra})
        return Stored(self.storage, ledger.publish(max_failed_rows=len(skipped)))

    def _run(self, name, stage):
        ledger = Ledger(self.storage, name, stage.spec, stage.shards(Sizing()))
        opened = stage.open(Site(self.storage.scratch()))
        for shard in ledger.pending():
            payload = opened.run(shard, (), lambda rows: None)
            ledger.commit(shard, payload.path, payload.facts)
        return Stored(self.storage, ledger.publish())
