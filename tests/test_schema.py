"""Columns made without pandas are those of pyarrow."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.schema import numbers, strings


@given(st.lists(st.text()))
def test_texts_become_the_column_that_pyarrow_makes_of_them(values):
    column = strings(values)
    column.validate(full=True)
    assert column.equals(pa.array(values, pa.string()))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, ">i4"])
@pytest.mark.parametrize("step", [1, -2])
def test_numbers_become_the_column_that_pyarrow_makes_of_them(dtype, step):
    for values in (np.arange(9, dtype=dtype)[::step], np.empty(0, dtype)):
        column = numbers(values)
        column.validate(full=True)
        assert column.to_pylist() == values.tolist()
        assert column.type == pa.from_numpy_dtype(values.dtype)
