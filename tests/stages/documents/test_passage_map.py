"""Which document a passage is part of, from windows and from what the files say."""

import numpy as np
import pytest

from raypipe import schema
from raypipe.stages.documents.name_documents import NamedDocumentsStage
from raypipe.stages.documents.passage_map import MapStage, PassageMap
from raypipe.stages.stage import Sizing


def test_the_passages_of_a_split_document_are_its_windows_in_order(split):
    stored = split(Sizing(shard_rows=2))[2]
    known, rows = PassageMap(stored), np.arange(8)
    assert stored.manifest.records[0].facts == {"rows": 8, "documents": 5}
    assert known.documents(rows).tolist() == [0, 0, 0, 1, 2, 3, 4, 4]
    assert known.windows(rows).tolist() == [0, 1, 2, 0, 0, 0, 0, 1]
    assert known.documents(np.array([7, 0])).tolist() == [4, 0]


@pytest.mark.parametrize(
    ("at_most", "places", "passages"),
    [
        (None, [0, 0, 1, 1, 1, 2], [6, 7, 0, 1, 2, 3]),
        (1, [0, 1, 2], [6, 0, 3]),
        (2, [0, 0, 1, 1, 2], [6, 7, 0, 1, 3]),
    ],
)
def test_the_passages_of_documents_are_found_in_their_order(split, at_most, places, passages):
    known = PassageMap(split()[2])
    found = known.passages(np.array([4, 0, 1]), at_most)
    assert [part.tolist() for part in found] == [places, passages]
    assert [len(part) for part in known.passages(np.empty(0, np.int64))] == [0, 0]


@pytest.fixture
def homes(stores):
    """Passages of three documents, two of them apart, and not in the order of their spans."""
    first = [["B", "B", "A"], ["(40,50)", "(5,9),(80,90)", ""]]
    second = [["B", "C", "A"], ["(6,7)", "(0,1)", ""]]
    return stores.tables(schema.HOMES, first, second)


def test_given_passages_are_windows_by_the_first_byte_of_their_spans_then_by_row(stores, homes):
    known = PassageMap(stores.finished(MapStage(homes, given=True)))
    rows = np.arange(6)
    assert known.documents(rows).tolist() == [0, 0, 1, 0, 2, 1]
    assert known.windows(rows).tolist() == [2, 0, 0, 1, 0, 1]
    assert known.passages(np.array([0, 1, 2]))[1].tolist() == [1, 3, 0, 2, 5, 4]


@pytest.mark.parametrize("size", [1, 2, 10])
def test_the_documents_of_given_passages_have_ids_in_order_of_first_appearance(stores, homes, size):
    known = stores.finished(MapStage(homes, given=True))
    stage = NamedDocumentsStage(homes, known)
    named = stores.finished(stage, Sizing(shard_rows=size))
    table = named.table(schema.DOCUMENTS)
    assert table["document_id"].to_pylist() == ["B", "A", "C"]
    assert set(table["body"].to_pylist()) == {""}
    assert stage.spec.produces == "documents"


def test_the_map_knows_where_it_is_from(stores, homes, split):
    windows, _, stored = split()
    assert MapStage(homes, given=True).spec.params == {"from": "homes"}
    assert list(MapStage(windows, given=False).spec.inputs) == ["windows"]
    assert stored.manifest.records[0].facts == {"rows": 8, "documents": 5}
    assert MapStage(windows, given=False).estimated_bytes(5, 5) == 24 * 8
    assert MapStage(homes, given=True).estimated_bytes(6, 6) == 24 * 6
