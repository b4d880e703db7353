import pytest

from raypipe.errors import InputError


def test_a_dev_set_names_its_queries_and_the_passages_of_its_run(dev):
    found, asked = dev("a 0 docs-12 1", "b 0 docs-12 0", "b 0 docs-10 2", "other 0 x 3")
    assert asked == [("run", 0, 2)] and found.run.num_rows == 5
    assert found.query_ids == {0: "a", 1: "b"}
    assert found.passage_ids == {10: "docs-10", 11: "docs-11", 12: "docs-12"}
    assert found.qrels["query_id"].to_pylist() == ["a", "b", "b"]
    assert (found.queries, found.passages, found.k) == ("texts of q", "texts of p", 2)


def test_a_dev_set_of_fewer_queries_judges_those_alone(dev):
    found, asked = dev("a 0 docs-12 1", "b 0 docs-10 2", at_most=1)
    assert asked == [("run", 0, 1)] and found.run.num_rows == 3
    assert found.query_ids == {0: "a"} and found.qrels.num_rows == 1
    with pytest.raises(InputError, match="no relevant passage for the queries that are measured"):
        dev("a 0 docs-12 0", "b 0 docs-10 2", at_most=1)
    assert dev("a 0 docs-12 0", "b 0 docs-10 2")[0].qrels.num_rows == 2
