import faiss
import numpy as np

from raypipe.engines.ann import ADDED_ROWS, build_hnsw


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
