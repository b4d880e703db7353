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
