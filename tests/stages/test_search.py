import itertools

import numpy as np
import pytest

from raypipe import schema
from raypipe.engines.exact_scores import NumpyProducts
from raypipe.stages import products
from raypipe.stages.search import PartsStage, merge_stage
from raypipe.stages.stage import Site, Sizing
from raypipe.storage.payloads import read_table
from raypipe.storage.records import Shard


def dot(queries, vectors):
    return np.asarray(queries, np.float64) @ np.asarray(vectors, np.float64).T


@pytest.mark.parametrize("actors", [1, 2, 9])
@pytest.mark.parametrize("block", [1, 2, 9])
def test_spans_and_query_blocks_do_not_show_in_the_run(stores, actors, block):
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-3, 4, (n, 4)) for n in (3, 1, 4, 2)]
    asked = [rng.integers(-3, 4, (n, 4)) for n in (2, 3)]
    without = {2, 5}
    embeddings = stores.vectors(*arrays, skipped=sorted(without))
    queries = stores.vectors(*asked, skipped=[1])
    sizing = Sizing(num_actors=actors, shard_queries=block)
    parts = stores.finished(PartsStage("dense", embeddings, queries, 3), sizing)
    run = stores.finished(merge_stage("dense", parts, stores.sides(5), 3), sizing).whole_table(
        schema.RUN
    )
    products = dot(np.concatenate(asked), np.concatenate(arrays))
    expected = []
    for query in (0, 2, 3, 4):
        order = sorted(set(range(10)) - without, key=lambda row: (-products[query, row], row))[:3]
        expected += [(query, row, rank, products[query, row]) for rank, row in enumerate(order, 1)]
    found = [tuple(line.values())[:4] for line in run.to_pylist()]
    assert found == expected and set(run["scored_by"].to_pylist()) == {"dense"}


def test_a_depth_beyond_the_collection_takes_no_memory_and_finds_every_passage(stores):
    embeddings = stores.vectors(np.ones((2, 2)), np.ones((3, 2)))
    queries = stores.vectors(np.ones((4, 2)))
    parts = stores.finished(PartsStage("dense", embeddings, queries, 10**9))
    run = stores.finished(merge_stage("dense", parts, stores.sides(4), 10**9))
    assert run.whole_table(schema.RUN)["passage_row"].to_pylist() == [*range(5)] * 4


def test_a_search_has_a_shard_for_each_span_and_block(stores):
    embeddings = stores.vectors(*[np.ones((2, 2))] * 5)
    queries = stores.vectors(np.ones((4, 2)))
    stage = PartsStage("dense", embeddings, queries, 3)
    assert stage.shards(Sizing(num_actors=1, shard_queries=2)) == [  # spans of rows [0, 4), [4, 10)
        Shard(0, 0, 2, 0, 4), Shard(1, 2, 4, 0, 4), Shard(2, 0, 2, 4, 10), Shard(3, 2, 4, 4, 10),
    ]  # fmt: skip
    names = {
        stage.spec.fingerprint(),
        PartsStage("dense", embeddings, queries, 4).spec.fingerprint(),
        PartsStage("other", embeddings, queries, 3).spec.fingerprint(),
        PartsStage("dense", queries, queries, 3).spec.fingerprint(),
    }
    assert len(names) == 4
    sides = stores.sides(4)
    merged = {merge_stage("dense", queries, sides, depth).spec.fingerprint() for depth in (3, 4)}
    assert len(merged) == 2


def test_a_span_is_of_rows_wherever_the_shards_of_vectors_begin(stores):
    """A plan may be older than the shards: they were made again, and cut elsewhere."""
    rng = np.random.default_rng(2)
    rows = rng.integers(-3, 4, (9, 4))
    queries = stores.vectors(rng.integers(-3, 4, (3, 4)))
    runs = []
    for edges in ([0, 9], [0, 2, 7, 9], [0, 4, 5, 9]):
        arrays = [rows[a:b] for a, b in itertools.pairwise(edges)]
        embeddings = stores.vectors(*arrays, skipped=[1, 5])
        stage = PartsStage("dense", embeddings, queries, 3)
        opened = stage.open(Site(stores.scratch))
        for start, stop in ((0, 9), (1, 6), (3, 9), (5, 6), (2, 5)):
            payload = opened.run(Shard(0, 0, 3, start, stop), (), lambda rows: None)
            found = read_table(payload.path, schema.RUN)["passage_row"].to_pylist()
            assert set(found) <= set(range(start, stop)) - {1, 5}
            runs.append((start, found))
    assert runs[:5] == runs[5:10] == runs[10:]


def test_a_search_asks_the_coarse_pass_of_its_machine_first(stores, monkeypatch):
    asked = []

    class Coarse(NumpyProducts):
        def multiply(self, queries):
            asked.append(len(queries))
            return super().multiply(queries)

    monkeypatch.setattr(products, "coarse_products", lambda device, threads: Coarse())
    rng = np.random.default_rng(1)
    embeddings, queries = (stores.vectors(rng.standard_normal((n, 4))) for n in (50, 20))
    stores.finished(PartsStage("dense", embeddings, queries, 3), Sizing(1, 20))
    assert asked == [20]
