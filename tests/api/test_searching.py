import numpy as np
import pyarrow as pa
import pytest

import raypipe
from raypipe import schema
from raypipe.errors import InputError


def test_a_search_of_texts_is_the_pipelines_run_ties_included(passages, queries, tiny_model, made):
    run = raypipe.search(queries, passages, tiny_model, depth=20)
    kept = made.runs["test"]["dense"]
    assert run.schema == schema.RUN_FILE
    assert run.equals(kept)
    scores = [row["score"] for row in run.to_pylist() if row["query_id"] == "q1"]
    assert len(set(scores)) < len(scores)  # repeated passages tie


def test_embeddings_are_searched_like_texts(passages, queries, tiny_model):
    wanted = raypipe.search(queries, passages, tiny_model, depth=9)
    sides = [
        raypipe.encode(queries, tiny_model, side="query"),
        raypipe.encode(passages, tiny_model),
    ]
    ids = {"query_ids": list(queries), "passage_ids": pa.array(list(passages))}
    assert raypipe.search(*sides, depth=9, **ids).equals(wanted)
    assert raypipe.search(
        queries, sides[1], tiny_model, depth=9, passage_ids=pa.array(list(passages))
    ).equals(wanted)


def test_a_search_is_one_product_and_one_sort():
    rng = np.random.default_rng(0)
    queries = rng.integers(-4, 5, (5, 8)).astype(np.float16)
    passages = rng.integers(-4, 5, (40, 8)).astype(np.float16)
    run = raypipe.search(queries, passages, depth=7)
    scores = queries.astype(np.float64) @ passages.astype(np.float64).T
    for row in range(5):
        best = np.lexsort((np.arange(40), -scores[row]))[:7]
        lines = [line for line in run.to_pylist() if line["query_id"] == str(row)]
        assert [line["passage_id"] for line in lines] == [str(place) for place in best]
        assert [line["score"] for line in lines] == scores[row][best].tolist()
        assert [line["rank"] for line in lines] == list(range(1, 8))


def test_positions_are_the_ids_of_a_list(tiny_model):
    run = raypipe.search(["a zebra"], ["a zebra", "the lease"], tiny_model)
    assert set(run["passage_id"].to_pylist()) == {"0", "1"}
    assert run["query_id"].to_pylist() == ["0", "0"]


@pytest.mark.parametrize("sides", [([], ["a"]), (["a"], []), ([], [])])
def test_nothing_to_search_gives_an_empty_run(sides, tiny_model):
    assert raypipe.search(*sides, tiny_model).equals(schema.RUN_FILE.empty_table())
    assert raypipe.search(*sides, "bm25").equals(schema.RUN_FILE.empty_table())


HALVES = np.ones((3, 4), np.float16)


def test_what_cannot_be_searched_is_refused(tiny_model):
    for queries, passages, more, told in [
        (HALVES, HALVES.astype(np.float32), {}, "found float32 [3, 4], expected float16"),
        (HALVES[0], HALVES, {}, "query embeddings: found float16 [4], expected float16"),
        (HALVES, HALVES[:, :3], {}, "embeddings of dimension 3, the queries' have 4"),
        (HALVES * np.float16(np.nan), HALVES, {}, "query row 0, 1, 2: found NaN or infinity"),
        (HALVES, HALVES * np.float16(np.inf), {}, "embedding row 0, 1, 2: found NaN or"),
        (HALVES, HALVES, {"depth": 0}, "depth: expected a whole number from 1; found 0"),
        (HALVES, HALVES, {"depth": 2.0}, "depth: expected a whole number from 1; found 2.0"),
        (HALVES, HALVES, {"passage_ids": ["a"]}, "_ids: found 1; expected one per vector, 3"),
        (HALVES, HALVES, {"query_ids": np.array(["a"])}, "_ids: found ndarray; expected a list or"),
        (HALVES, HALVES, {"query_ids": ["a", "b", "a"]}, "query 2: id 'a' again, first at 0"),
        (["a"], HALVES, {"query_ids": ["a"]}, "give texts as a dictionary id -> text"),
        (
            ["a"],
            ["a"],
            {"model": "bm25", "b": 1.5},
            "b: expected a finite number from 0 to 1; found 1.5",
        ),
        (["a"], ["a"], {"model": "bm25", "k1": -1}, "k1: expected a finite number from 0"),
        (
            ["a"],
            ["a"],
            {"model": "bm25", "k1": float("inf")},
            "k1: expected a finite number from 0",
        ),
        (HALVES, ["a"], {"model": "bm25"}, "query embeddings: bm25 searches texts"),
    ]:
        more = {"model": tiny_model, **more}
        with pytest.raises(InputError) as refused:
            raypipe.search(queries, passages, **more)
        assert told in str(refused.value)
