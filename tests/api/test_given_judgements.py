import numpy as np
import pyarrow as pa
import pytest

import raypipe
from raypipe import schema
from raypipe.api.inputs import qrels_of
from raypipe.errors import InputError

RUN = {"q": {"a": 3.0, "b": 2.0}, "r": {"a": 1.0}}
QRELS = {"q": {"b": 1}, "r": {"a": 1}}


def test_judgements_come_as_dictionaries_tables_and_files(tmp_path):
    (tmp_path / "qrels.txt").write_text("q 0 b 1\nr 0 a 1\n")
    columns = {"query_id": ["q", "r"], "passage_id": ["b", "a"], "relevance": [1, 1]}
    wanted = pa.table(columns, schema=schema.QRELS)
    frame = pa.table({**columns, "more": [1, 2]}).to_pandas()
    for given in (QRELS, pa.table(columns), frame, tmp_path / "qrels.txt"):
        assert qrels_of(given).equals(wanted)
    assert qrels_of({1: {2: 3}}).to_pylist()[0] == {
        "query_id": "1",
        "passage_id": "2",
        "relevance": 3,
    }


@pytest.mark.parametrize(
    "names",
    [("query_id", "doc_id", "relevance"), ("qid", "docno", "label"), ("Q_ID", "pid", "rel")],
)
def test_tables_of_judgements_have_the_names_and_grades_that_files_have(tmp_path, names):
    frame = pa.table([["q", "r"], ["b", "a"], [2.0, 1.0]], names=names).to_pandas()
    frame.to_parquet(tmp_path / "qrels.parquet")
    wanted = [{"query_id": "q", "passage_id": "b", "relevance": 2}]
    wanted += [{"query_id": "r", "passage_id": "a", "relevance": 1}]
    for given in (frame, tmp_path / "qrels.parquet"):
        assert qrels_of(given).to_pylist() == wanted
    assert qrels_of({"q": {"b": np.float32(2)}, "r": {"a": np.int8(1)}}).to_pylist() == wanted


def test_a_table_of_scores_is_judgements_where_only_those_have_its_names_or_type():
    names = ["q_id", "doc_id", "score"]
    of_ranx = pa.table([["q"], ["b"], [1]], names=names)
    assert qrels_of(of_ranx).num_rows == 1
    for run in (
        pa.table([["q"], ["b"], [1.0]], names=names),
        pa.table([["q"], ["b"], [1]], names=["query_id", "passage_id", "score"]),
    ):
        with pytest.raises(InputError, match="qrels: the column score is that of a run"):
            qrels_of(run)


@pytest.mark.parametrize(
    ("qrels", "told"),
    [
        (7, "qrels: found int; expected a table with query_id, passage_id and relevance"),
        ({}, "qrels: no judgements"),
        ({"q": ["b"]}, "qrels: query 'q': expected a dictionary passage id -> grade"),
        ({"q": {"b": 0.5}}, "qrels: query 'q', passage 'b': expected an integer grade, found 0.5"),
        ({"q": {"b": float("nan")}}, "expected an integer grade, found nan"),
        (
            {"q": {"b": 1_000_001}},
            "qrels: query 'q', passage 'b': grade 1000001 is beyond 1,000,000",
        ),
        ({"q": {"b": np.True_}}, "expected an integer grade, found"),
        ({"q": {"b": True}}, "expected an integer grade, found True"),
        (
            {"\ud800": {"b": 1}},
            "qrels: query '\\ud800', passage 'b': query id: not Unicode text",
        ),
        ({"q": {None: 1}}, "qrels: query 'q', passage None: expected a string as passage id"),
        (pa.table({"query_id": ["q"]}), "qrels: expected a column passage_id; found query_id"),
        (
            pa.table([["q"], ["a"], ["b"], [1]], names=["query_id", "pid", "pid", "rel"]),
            "qrels: expected each column once, found pid twice",
        ),
        ({"x": {"b": 1}}, "run and qrels share no query"),
    ],
)
def test_what_are_no_judgements_is_refused(qrels, told):
    with pytest.raises(InputError) as refused:
        raypipe.evaluate(RUN, qrels)
    assert told in str(refused.value)
