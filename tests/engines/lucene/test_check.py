import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.engines.lucene.index import compare_ids
from raypipe.errors import IncompleteError


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        (["a", "c", "d"], None),
        (["a", "d", "c"], r"document 1: expected passage 'c' of row 2, found passage 'd'"),
        (["a", "c"], r"document 2: expected passage 'd' of row 3, found no document"),
        (["a", "c", "d", "e"], r"document 3: expected 3 documents in all, found also passage 'e'"),
    ],
)
def test_every_id_is_compared_with_its_row(tmp_path, stored, problem):
    ids = tmp_path / "ids"
    ids.write_text(f"{stored[:2]}\n{stored[2:]}\n".replace("'", '"'))
    halves = [
        pa.table([[*names], ["x"] * len(names)], schema=schema.PASSAGES) for names in ("ab", "cde")
    ]
    rows = np.array([0, 2, 3])
    if problem is None:
        compare_ids(ids, rows, halves)
    else:
        with pytest.raises(IncompleteError, match=problem):
            compare_ids(ids, rows, halves)
