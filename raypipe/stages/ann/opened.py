"""A stored index, in memory, as faiss searches it."""

from typing import Any

import numpy as np

from raypipe.engines.ann import read_index
from raypipe.stages.embeddings import all_vectors
from raypipe.storage.store import Stored


def opened_graph(graph: Stored) -> Any:
    """A graph (HNSW); its ids are rows of the collection."""
    return read_index(graph.path(graph.manifest.records[0]))


def opened_lists(codes: Stored, centres: Stored, embeddings: Stored) -> Any:
    """An IVF-PQ index of all codes; its ids are rows of the collection."""
    index = read_index(centres.path(centres.manifest.records[0]))
    ranges = [(row, len(vectors)) for row, vectors in all_vectors(embeddings)]
    rows = np.concatenate([np.empty(0, np.int64), *(np.arange(a, a + n) for a, n in ranges)])
    first = 0
    for record in codes.manifest.records:
        part = np.load(codes.path(record), mmap_mode="r", allow_pickle=False)
        if len(part):
            index.add_sa_codes(np.ascontiguousarray(part), rows[first : first + len(part)])
        first += len(part)
    assert first == len(rows), "codes of other rows than the embeddings have"
    return index
