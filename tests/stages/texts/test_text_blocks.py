"""Texts of scattered rows, a row group at a time."""

import numpy as np
import pytest

from raypipe import schema
from raypipe.stages import tokenize
from raypipe.stages.tokenize import TextReader
from raypipe.storage import payloads as tables


@pytest.fixture
def groups_of_three(monkeypatch):
    for module in (tables, tokenize):
        monkeypatch.setattr(module, "ROW_GROUP_ROWS", 3)


@pytest.fixture
def reads(monkeypatch):
    """(rows, columns) of each read of a payload."""
    found = []

    def read_table(path, schema, **settings):
        table = tables.read_table(path, schema, **settings)
        found.append((table["text"].to_pylist(), settings["columns"]))
        return table

    monkeypatch.setattr(tokenize, "read_table", read_table)
    return found


SHARDS = ["abcdefgh", "", "ij", "klmn"]
"""Row groups abc def gh, ij, klm n."""


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "rows", [range(14), [0], [13], [0, 13], [1, 2, 4, 5, 7, 8, 9, 10, 12], [8, 9, 10], []]
)
def test_rows_have_their_texts_in_parts_of_one_row_group(groups_of_three, stores, rows, size):
    reader = TextReader(stores.passages(*SHARDS), schema.PASSAGES)
    letters = "".join(SHARDS)
    groups = ["abc", "def", "gh", "ij", "klm", "n"]
    expected = []
    for group in groups:
        own = [row for row in rows if letters[row] in group]
        expected += [own[i : i + size] for i in range(0, len(own), size)]
    batches = [*reader.batches(np.array(rows, np.int64), size)]
    assert [batch.tolist() for batch in batches] == expected
    for batch in batches:
        assert reader.texts(batch).to_pylist() == [letters[row] for row in batch]


def test_a_row_group_is_read_once_and_of_the_texts_alone(groups_of_three, stores, reads):
    reader = TextReader(stores.passages(*SHARDS), schema.PASSAGES)
    for rows in ([0, 1], [2], [3, 4], [5], [6, 7], [8], [9], [10, 12], [13], [0]):
        reader.texts(np.array(rows))
    groups = ["abc", "def", "gh", "ij", "klm", "n", "abc"]
    assert reads == [([*group], ["text"]) for group in groups]


def test_a_set_without_rows_has_no_batches(stores):
    reader = TextReader(stores.passages([]), schema.PASSAGES)
    assert [*reader.batches(np.empty(0, np.int64), 5)] == []


def test_a_query_set_is_read_too(stores):
    reader = TextReader(stores.queries("x", "y"), schema.QUERIES)
    assert reader.texts(np.array([1, 0])).to_pylist() == ["y", "x"]
