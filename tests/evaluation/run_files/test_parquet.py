import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run


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
