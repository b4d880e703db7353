import numpy as np
import pyarrow as pa
import pytest
from long_collection import (
    FILLED,
    NUM_PASSAGES,
    id_of,
)

from raypipe import schema
from raypipe.engines.lucene.index import compare_ids
from raypipe.engines.lucene.search import LuceneSearcher, check_index
from raypipe.errors import CorruptError, IncompleteError

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


@pytest.fixture(scope="session")
def searcher(long_index):
    return LuceneSearcher(long_index)


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


class Changed:
    """An opened index of which one fact is another."""

    def __init__(self, searcher, **changes):
        self.rows, self.num_documents = searcher.rows, searcher.num_documents
        self.num_segments, self.stored_ids = searcher.num_segments, searcher.stored_ids
        vars(self).update(changes)


def swapped(rows, first, second):
    rows = rows.copy()
    rows[[first, second]] = rows[[second, first]]
    return rows


def ids_of(rows):
    return [id_of(row) for row in rows]


def test_an_index_in_row_order_passes_the_check_on_opening(searcher):
    check_index(Changed(searcher), "stores/lucene/1", NUM_PASSAGES, ids_of)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: {"num_documents": 5}, f"expected {len(FILLED)} documents, found 5"),
        (lambda s: {"num_segments": 2}, "expected one segment, found 2"),
        (lambda s: {"rows": swapped(s.rows, 7, 8)}, "document 8: expected a row above 9, found 8"),
        (
            lambda s: {"rows": np.maximum.accumulate(s.rows // 2)},
            "document 1: expected a row above",
        ),
        (lambda s: {"rows": s.rows + 2}, f"expected rows of {NUM_PASSAGES} passages, found rows 2"),
        (lambda s: {"rows": s.rows - 1}, "found rows -1 to"),
        (
            lambda s: {"stored_ids": lambda d: [id_of(s.rows[n]) for n in d[:-1]] + ["x"]},
            "found 'x'",
        ),
        (
            lambda s: {"stored_ids": lambda d: ["x"] + [id_of(s.rows[n]) for n in d[1:]]},
            "document 0",
        ),
    ],
)
def test_an_index_out_of_order_is_refused_on_opening_with_the_remedy(searcher, change, problem):
    changed = Changed(searcher, **change(searcher))
    with pytest.raises(CorruptError, match=rf"^stores/lucene/1: .*{problem}.*delete this store"):
        check_index(changed, "stores/lucene/1", NUM_PASSAGES, ids_of)


def test_a_thousand_documents_are_asked_first_and_last_among_them(searcher):
    asked = []

    def stored_ids(documents):
        asked.extend(documents)
        return searcher.stored_ids(documents)

    check_index(Changed(searcher, stored_ids=stored_ids), "x", NUM_PASSAGES, ids_of)
    assert (len(asked), asked[0], asked[-1]) == (1000, 0, len(FILLED) - 1)
    assert set(np.diff(asked).tolist()) <= {7, 8, 9}
