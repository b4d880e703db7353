"""Approximate search where its index proposes every row: the result of exact search."""

import dataclasses

import faiss
import numpy as np
import pytest

from raypipe.engines.ann import (
    Effort,
    approximate_topk,
    build_hnsw,
    codes_of,
    read_index,
    train_ivf_pq,
    write_index,
)
from raypipe.engines.ann_settings import faiss_class, faiss_version
from raypipe.engines.exact import topk_block_stream
from raypipe.engines.exact_scores import checked_shards
from raypipe.errors import CorruptError

DIM = 24


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(4)
    found = rng.standard_normal((1500, DIM)).astype(np.float16)
    found[rng.permutation(1500)[:200]] = found[7]  # ties
    return found


@pytest.fixture(scope="module")
def queries(vectors):
    found = np.random.default_rng(5).standard_normal((9, DIM)).astype(np.float16)
    found[3] = vectors[7]
    return found


@pytest.fixture(scope="module")
def blocks(vectors):
    """Without row 600, which is in quarantine, and from row 100 on."""
    return [(701, vectors[601:]), (100, vectors[:600])]


def graph_of(blocks):
    return build_hnsw(blocks, DIM, links=16, ef_construction=100, beat=lambda: None)


def lists_of(blocks):
    ordered = sorted(blocks, key=lambda block: block[0])
    sample = np.concatenate([some for _, some in ordered]).astype(np.float32)
    index = train_ivf_pq(sample[::2], lists=12, code_bytes=6, seed=3)
    for first, some in ordered:
        index.add_sa_codes(codes_of(index, some), np.arange(first, first + len(some)))
    return index


INDEXES = {
    "graph": (graph_of, Effort(1500, ef_search=1500)),
    "lists": (lists_of, Effort(1500, probes=12)),
}


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("left_out", [0, 1])
def test_all_rows_proposed_give_exact_searchs_rows_and_scores(kind, blocks, queries, left_out):
    """Without one, which is none of the first 300, the index itself is asked."""
    build, effort = INDEXES[kind]
    if kind == "graph" and left_out:  # no walk reaches each of 200 equal rows
        blocks = [(first, np.unique(some, axis=0)) for first, some in blocks]
    shards = checked_shards(blocks, DIM)
    num = sum(len(some) for _, some in blocks)
    effort = dataclasses.replace(effort, candidates=num - left_out)
    found = approximate_topk(build(blocks), queries, shards, depth=300, effort=effort)
    expected = topk_block_stream(queries, blocks, depth=300)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1].view(np.uint32), expected[1].view(np.uint32))


@pytest.mark.parametrize("kind", INDEXES)
def test_few_proposals_give_exact_scores_in_order_and_less_recall(kind, blocks, queries, vectors):
    build, _ = INDEXES[kind]
    effort = Effort(30, ef_search=30) if kind == "graph" else Effort(30, probes=1)
    index, shards = build(blocks), checked_shards(blocks, DIM)
    rows, scores = approximate_topk(index, queries, shards, depth=20, effort=effort)
    assert not np.isin(700, rows) and (rows[rows >= 0] >= 100).all()
    for query, of_query, of_scores in zip(queries, rows, scores, strict=True):
        own = of_query[of_query >= 0]
        exact = (vectors[own - 100].astype("f8") @ query.astype("f8")).astype("f4")
        assert np.array_equal(exact, of_scores[: len(own)])
        lines = list(zip(-exact, own, strict=True))
        assert lines == sorted(lines) and len(set(own.tolist())) == len(own)
    expected = topk_block_stream(queries, blocks, depth=20)[0]
    hits = np.mean([np.isin(a, b).mean() for a, b in zip(expected, rows, strict=True)])
    assert 0.2 < hits and (kind == "graph" or hits < 1)


@pytest.mark.parametrize("kind", INDEXES)
def test_threads_and_the_queries_beside_do_not_show(kind, blocks, queries):
    build, _ = INDEXES[kind]
    effort = Effort(40, ef_search=40) if kind == "graph" else Effort(40, probes=3)
    index, shards = build(blocks), checked_shards(blocks, DIM)
    beats = []
    found = [
        approximate_topk(
            index,
            queries,
            shards,
            depth=20,
            effort=effort,
            threads=threads,
            beat=lambda: beats.append(1),
        )
        for threads in (1, 3)
    ]
    assert len(beats) == 2 * len(queries)
    alone = [
        approximate_topk(index, queries[i : i + 1], shards, depth=20, effort=effort)
        for i in range(len(queries))
    ]
    for place in (0, 1):
        assert np.array_equal(found[0][place], found[1][place])
        assert np.array_equal(found[0][place], np.concatenate([one[place] for one in alone]))


@pytest.mark.parametrize("kind", INDEXES)
def test_more_effort_finds_more(kind, blocks, queries):
    build, _ = INDEXES[kind]
    index, shards = build(blocks), checked_shards(blocks, DIM)
    expected = topk_block_stream(queries, blocks, depth=20)[0]

    def recall(effort):
        rows, _ = approximate_topk(index, queries, shards, depth=20, effort=effort)
        return np.mean([np.isin(a, b).mean() for a, b in zip(expected, rows, strict=True)])

    if kind == "lists":
        assert recall(Effort(200, probes=1)) < recall(Effort(200, probes=12))
        assert recall(Effort(20, probes=12)) < recall(Effort(200, probes=12))
    else:
        assert recall(Effort(20, ef_search=1)) < recall(Effort(20, ef_search=500))


def test_an_index_without_rows_and_no_queries_leave_every_place_missing():
    index = graph_of([])
    queries = np.ones((2, DIM), np.float16)
    effort = Effort(6, ef_search=6)
    rows, scores = approximate_topk(index, queries, (), depth=3, effort=effort)
    assert rows.tolist() == [[-1] * 3] * 2 and (scores == -np.inf).all()
    rows, scores = approximate_topk(index, queries[:0], (), depth=3, effort=effort)
    assert rows.shape == scores.shape == (0, 3)


def test_fewer_rows_than_the_depth_leave_missing_places():
    vectors = np.eye(DIM, dtype=np.float16)[:2]
    index, shards = graph_of([(5, vectors)]), checked_shards([(5, vectors)], DIM)
    rows, scores = approximate_topk(
        index, vectors[1:], shards, depth=4, effort=Effort(8, ef_search=8)
    )
    assert rows.tolist() == [[6, 5, -1, -1]] and scores.tolist() == [[1, 0, -np.inf, -np.inf]]


def test_faiss_alone_reads_the_graph_with_rows_as_ids(tmp_path, blocks):
    faiss.write_index(graph_of(blocks), str(tmp_path / "index"))
    index = faiss.read_index(str(tmp_path / "index"))
    assert index.ntotal == 1499 and index.metric_type == faiss.METRIC_INNER_PRODUCT
    ids = faiss.vector_to_array(index.id_map)
    assert ids.tolist() == [*range(100, 700), *range(701, 1600)]


def test_an_index_that_cannot_be_written_or_read_is_an_error_of_storage(tmp_path):
    with pytest.raises(OSError, match="faiss could not write it"):
        write_index(faiss.IndexFlatIP(3), tmp_path / "missing" / "index")
    (tmp_path / "damaged").write_bytes(b"no index")
    with pytest.raises(CorruptError, match="damaged: not an index"):
        read_index(tmp_path / "damaged")
    write_index(faiss.IndexFlatIP(3), tmp_path / "index")
    assert read_index(tmp_path / "index").d == 3


def test_the_class_names_the_version_and_the_instructions():
    name, version, level = faiss_class().split()
    assert (name, version) == ("faiss", faiss.__version__) == ("faiss", faiss_version())
    assert level == faiss.SIMDConfig.get_level_name()
