import pytest

import raypipe


@pytest.mark.jvm
@pytest.mark.slow
def test_bm25_of_texts_is_the_pipelines_run(passages, queries, recipe, tmp_path):
    stages = {"lucene": {"do": "index"}, "bm25": {"do": "search", "index": "lucene", "depth": 6}}
    keys = {**recipe, "stages": stages, "evaluate": {"measures": ["RR@10"]}}
    wanted = raypipe.run(keys, tmp_path / "work").runs["test"]["bm25"]
    found = raypipe.search(queries, passages, "bm25", depth=6)
    assert len(found) and found.equals(wanted)
    assert raypipe.search(queries, {"blank": " "}, "bm25").num_rows == 0
    assert not raypipe.search(queries, passages, "bm25", depth=6, k1=2.0, b=0.9).equals(found)
