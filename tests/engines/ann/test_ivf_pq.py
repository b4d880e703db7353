import faiss
import numpy as np
import pytest

from raypipe.engines.ann import ADDED_ROWS, ENCODED_ROWS, build_hnsw, codes_of, train_ivf_pq
from raypipe.engines.ann_settings import code_bytes_for, lists_for


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(3).standard_normal((ENCODED_ROWS + 500, 16)).astype(np.float16)


@pytest.fixture(scope="module")
def index(rows):
    return train_ivf_pq(rows.astype(np.float32), lists=20, code_bytes=4, seed=1)


def test_a_rows_code_is_the_same_alone_and_among_others(rows, index):
    whole = codes_of(index, rows)
    assert whole.shape == (len(rows), 5) and whole.dtype == np.uint8
    for place in (0, 1, 77, ENCODED_ROWS - 1, ENCODED_ROWS, len(rows) - 1):
        assert np.array_equal(codes_of(index, rows[place : place + 1])[0], whole[place])
    assert np.array_equal(codes_of(index, rows[13:]), whole[13:])


def test_training_depends_on_the_seed_and_not_on_threads(rows, index):
    def trained(seed):
        made = train_ivf_pq(rows.astype(np.float32), lists=20, code_bytes=4, seed=seed)
        return faiss.serialize_index(made).tobytes()

    faiss.omp_set_num_threads(4)
    assert trained(1) == faiss.serialize_index(index).tobytes()
    assert trained(2) != trained(1)


@pytest.mark.parametrize("num", [0, 1, 5, 300])
def test_few_rows_are_enough_to_train_on(num):
    rows = np.random.default_rng(3).standard_normal((num, 16)).astype(np.float16)
    index = train_ivf_pq(rows.astype(np.float32), lists=max(1, num // 2), code_bytes=4, seed=1)
    assert codes_of(index, rows).shape == (num, index.sa_code_size())


def test_sizes_follow_their_rules():
    assert [lists_for(n) for n in (0, 1, 10, 100, 1_000_000, 8_841_823)] == [
        1, 1, 10, 40, 4000, 11894,
    ]  # fmt: skip
    assert [code_bytes_for(d) for d in (768, 384, 32, 20, 7, 1)] == [96, 48, 4, 2, 1, 1]


def test_a_code_does_not_know_how_many_rows_follow():
    """All lists are equally near to these rows, so that any other order of the sums shows."""
    generator = np.random.default_rng(0)
    one = generator.standard_normal(384)
    centres = np.stack([generator.permutation(one) for _ in range(256)]).astype(np.float32)
    index = train_ivf_pq(centres, lists=256, code_bytes=4, seed=1)
    alike = np.repeat(generator.uniform(0.5, 1, ENCODED_ROWS).astype(np.float16)[:, None], 384, 1)
    whole = codes_of(index, alike)
    for num in (1, 19, 20, 150):
        assert np.array_equal(codes_of(index, alike[:num]), whole[:num])


def bytes_of(blocks, **settings):
    settings = {"links": 8, "ef_construction": 40, "beat": lambda: None} | settings
    return faiss.serialize_index(build_hnsw(blocks, 12, **settings)).tobytes()


def test_where_shards_end_and_how_many_threads_there_are_does_not_show():
    rows = np.random.default_rng(1).standard_normal((ADDED_ROWS * 2 + 300, 12)).astype(np.float16)
    whole = bytes_of([(0, rows)])
    assert bytes_of([(0, rows[:7]), (1500, rows[1500:]), (7, rows[7:1500])]) == whole
    faiss.omp_set_num_threads(4)
    assert bytes_of([(0, rows)]) == whole
    assert bytes_of([(0, rows)], links=9) != whole
    assert bytes_of([(0, rows)], ef_construction=5) != whole


def test_stored_values_are_kept_as_they_are_and_each_piece_is_a_heartbeat():
    rows = np.random.default_rng(2).standard_normal((ADDED_ROWS + 1, 12)).astype(np.float16)
    beats = []
    index = build_hnsw([(0, rows)], 12, links=8, ef_construction=40, beat=lambda: beats.append(1))
    kept = faiss.downcast_index(index.index).reconstruct_n(0, len(rows))
    assert np.array_equal(kept, rows.astype(np.float32)) and len(beats) == 2
