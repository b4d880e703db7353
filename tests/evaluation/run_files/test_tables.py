import base64
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run

GOOD = pa.table({"query_id": ["q"], "passage_id": ["p"], "rank": [1], "score": [1.0]})


def changed(name, values):
    return GOOD.set_column(GOOD.column_names.index(name), name, values)


@pytest.mark.fault(34, "each of 11 tables with a wrong, missing or null column is refused by name")
@pytest.mark.parametrize(
    ("table", "told"),
    [
        (GOOD.drop(["query_id"]), "missing query_id; found passage_id, rank, score"),
        (GOOD.drop(["score", "rank", "passage_id"]), "missing passage_id; found query_id"),
        (GOOD.drop(["score", "rank"]), "expected a rank or a score for each passage"),
        (
            changed("query_id", pa.array([1.5])),
            "query_id: expected texts or whole numbers; found double; pandas.*int64",
        ),
        (
            changed("passage_id", pa.array([b"p"])),
            "passage_id: expected texts .*; found .*binary; .*decode",
        ),
        (changed("passage_id", pa.array([["p"]])), "passage_id: expected texts .*; found list"),
        (
            changed("score", pa.array(["1"])),
            r"score: expected numbers; found string; .*astype\({'score': 'float64'}\)",
        ),
        (changed("rank", pa.array([True])), "rank: expected numbers; found bool"),
        (
            changed("query_id", pa.array([None], pa.string())),
            "query_id: 1 rows are null, the first of them row 1; leave",
        ),
        (changed("score", pa.array([None], pa.float64())), "score: 1 rows are null"),
        (changed("rank", pa.array([None], pa.int32())), "rank: 1 rows are null"),
    ],
)
def test_a_column_that_is_no_runs_is_named_with_what_was_expected(tmp_path, table, told):
    pq.write_table(table, tmp_path / "run.parquet")
    with pytest.raises(InputError, match=rf"run\.parquet: .*{told}"):
        read_run(tmp_path / "run.parquet")


@pytest.mark.fault(34, "a column beside those of a run changes nothing")
def test_other_columns_are_not_read(tmp_path):
    pq.write_table(GOOD.append_column("text", [["x" * 100]]), tmp_path / "more")
    pq.write_table(GOOD, tmp_path / "plain")
    assert read_run(tmp_path / "more") == read_run(tmp_path / "plain")


def test_scores_in_decimals_are_numbers(tmp_path):
    table = changed("score", pa.array([Decimal("2.50")]))
    pq.write_table(table, tmp_path / "run")
    assert read_run(tmp_path / "run")["score"].to_pylist() == [2.5]


def test_ranks_alone_are_a_run_whose_scores_are_their_reciprocals(tmp_path):
    columns = {"qid": ["q", "q", "r"], "docno": ["a", "b", "a"], "rank": [1, 0, 0]}
    pq.write_table(pa.table(columns), tmp_path / "run.parquet")
    assert read_run(tmp_path / "run.parquet").to_pylist() == [
        {"query_id": "q", "passage_id": "b", "rank": 1, "score": 1.0},
        {"query_id": "q", "passage_id": "a", "rank": 2, "score": 0.5},
        {"query_id": "r", "passage_id": "a", "rank": 1, "score": 1.0},
    ]


def test_ids_that_no_run_file_can_hold_are_refused_ten_of_them_by_row(tmp_path):
    ids = ["a", *(f"{n} x" for n in range(11)), "0 x"]
    table = pa.table({"query_id": ["q"] * 12 + ["r\u2028"], "passage_id": ids, "score": [1.0] * 13})
    pq.write_table(table, tmp_path / "run.parquet")
    with pytest.raises(InputError) as caught:
        read_run(tmp_path / "run.parquet")
    name = f"{tmp_path}/run.parquet"
    white = "white space or a control character in the"
    assert caught.value.problems == [
        f"{name}: row 13: {white} query id 'r\\u2028'",
        *(f"{name}: row {n + 2}: {white} passage id '{n} x'" for n in range(10)),
        f"{name}: 1 more like these",
    ]


@pytest.mark.fault(36, "a Parquet run of 5 million equal rows is refused before they are read")
def test_a_small_file_of_many_rows_is_refused_by_its_number_of_rows(tmp_path):
    path = tmp_path / "run.parquet"
    equal = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int32()), ["a"])
    columns = {"query_id": equal, "passage_id": equal, "score": pa.array([1.0] * 1_000_000)}
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(5):
            writer.write_table(table)
    assert path.stat().st_size < 200_000
    with pytest.raises(
        InputError, match=r"run\.parquet: expected at most 200 times its [0-9,]+ pac"
    ):
        read_run(path)


def typed_as(path, schema):
    """Write the file again with a footer that tells other types of the same columns."""
    table = pq.ParquetFile(path, read_dictionary=["query_id", "passage_id"]).read()
    told = base64.b64encode(schema.serialize().to_pybytes())
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ARROW:schema": told.decode()})


@pytest.mark.fault(36, "a Parquet run with one id of 100 kB in 10,000 rows is refused below 64 MiB")
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_one_long_id_in_many_rows_is_held_once_and_refused(tmp_path, kind):
    path = tmp_path / "run.parquet"
    same = pa.array([0] * 10_000, pa.int32())
    ids = pa.DictionaryArray.from_arrays(same, ["a" * 100_000])
    columns = {"query_id": ids, "passage_id": ids, "score": pa.array([1.0] * 10_000)}
    pq.write_table(pa.table(columns), path, store_schema=False)
    told = pa.schema([("query_id", kind), ("passage_id", kind), ("score", pa.float64())])
    typed_as(path, told)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(
        InputError, match=r"run\.parquet: expected at most 200 times its [0-9,]+ pac"
    ):
        read_run(path)
    assert pa.default_memory_pool().max_memory() - before < 64 << 20


def test_a_parquet_run_without_rows_is_refused(tmp_path):
    path = tmp_path / "run.parquet"
    pq.write_table(schema.RUN_FILE.empty_table(), path)
    with pytest.raises(InputError, match=r"run\.parquet: no rows; expected a run"):
        read_run(path)


@pytest.mark.parametrize("name", ["score", "query_id", "rank"])
def test_a_column_given_twice_is_named(tmp_path, name):
    path = tmp_path / "run.parquet"
    columns = {"query_id": ["q"], "passage_id": ["p"], "rank": [1], "score": [1.0]}
    names = [*columns, name]
    pq.write_table(pa.table([pa.array(columns[n]) for n in names], names=names), path)
    with pytest.raises(
        InputError, match=rf"run\.parquet: expected each column once, found {name} "
    ):
        read_run(path)
