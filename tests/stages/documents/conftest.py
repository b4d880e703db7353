"""Documents as stores, and how they are split."""

import pytest

from raypipe import schema
from raypipe.stages.documents.passage_map import MapStage
from raypipe.stages.documents.split import SplitStage
from raypipe.stages.documents.windows import WindowsStage
from raypipe.text.split import Splitting

BODIES = ["a b c d e f", "", "g", "h i j", "k l m n"]
"""With windows of 3 words, 2 apart, these have 3, 1, 1, 1 and 2 passages."""


@pytest.fixture
def splitting():
    return Splitting(by="words", length=3, stride=2, title_words=1)


@pytest.fixture
def documents(stores):
    """Five documents in two shards."""

    def rows(first, stop):
        numbers = range(first, stop)
        ids, titles = [f"D{n}" for n in numbers], [f"t{n} rest" for n in numbers]
        return [ids, titles, [""] * len(ids), BODIES[first:stop]]

    return stores.tables(schema.DOCUMENTS, rows(0, 3), rows(3, 5))


@pytest.fixture
def split(stores, documents, splitting):
    """(windows, passages, map) of the documents, with other shards by the sizing."""

    def go(sizing=None):
        windows = stores.finished(WindowsStage(documents, splitting), sizing)
        passages = stores.finished(SplitStage(documents, windows, splitting), sizing)
        return windows, passages, stores.finished(MapStage(windows, given=False), sizing)

    return go
