"""Documents split into the passages of a collection."""

from dataclasses import replace

import pytest

from raypipe import schema
from raypipe.stages.documents.split import SplitStage
from raypipe.stages.documents.windows import WindowsStage
from raypipe.stages.stage import Sizing

PASSAGES = [
    ("D0#0", "t0 a b c"),
    ("D0#1", "t0 c d e"),
    ("D0#2", "t0 e f"),
    ("D1#0", "t1"),
    ("D2#0", "t2 g"),
    ("D3#0", "t3 h i j"),
    ("D4#0", "t4 k l m"),
    ("D4#1", "t4 m n"),
]


def rows_of(stored):
    return [tuple(row.values()) for row in stored.table(schema.PASSAGES).to_pylist()]


@pytest.mark.parametrize(
    ("size", "shards"),
    [
        (1, [(0, 3), (3, 4), (4, 5), (5, 6), (6, 8)]),
        (4, [(0, 4), (4, 8)]),
        (5, [(0, 5), (5, 8)]),
        (7, [(0, 6), (6, 8)]),
        (100, [(0, 8)]),
    ],
)
def test_a_document_is_in_one_shard_and_the_passages_are_the_same_however_cut(split, size, shards):
    _, passages, _ = split(Sizing(shard_rows=size))
    assert [(r.shard.start, r.shard.stop) for r in passages.manifest.records] == shards
    assert rows_of(passages) == PASSAGES


def test_passages_without_a_word_are_counted(stores, documents, split, splitting):
    windows, passages, _ = split()
    assert [r.facts["blank"] for r in passages.manifest.records] == [0]
    bare = SplitStage(documents, windows, replace(splitting, title_words=0))
    assert stores.finished(bare).manifest.records[0].facts == {"rows": 8, "blank": 1}


def test_the_spec_is_the_documents_and_how_they_are_split(documents, split, splitting):
    windows, _, _ = split()
    spec = SplitStage(documents, windows, splitting).spec
    assert (spec.produces, list(spec.inputs)) == ("passages", ["documents"])
    for setting in ({"title_words": 2}, {"headings_words": 1}, {"length": 4}, {"at_most": 9}):
        other = SplitStage(documents, windows, replace(splitting, **setting)).spec
        assert other.fingerprint() != spec.fingerprint()


def test_the_spec_says_that_text_without_blanks_is_counted_in_characters(documents, splitting):
    for stage in (WindowsStage(documents, splitting), SplitStage(documents, documents, splitting)):
        assert stage.spec.params["unspaced"] == "characters"
    whole = replace(splitting, by="whole")
    assert "unspaced" not in WindowsStage(documents, whole).spec.params


def test_the_estimate_grows_with_the_documents_and_the_rows(documents, split, splitting):
    stage = SplitStage(documents, split()[0], splitting)
    assert stage.estimated_bytes(8, 8) == 3 * documents.num_bytes
    assert stage.estimated_bytes(0, 0) == 0


def test_a_collection_without_documents_has_no_passage(stores, splitting):
    from raypipe.stages.documents.passage_map import MapStage

    none = stores.tables(schema.DOCUMENTS, [[], [], [], []])
    windows = stores.finished(WindowsStage(none, splitting))
    assert rows_of(stores.finished(SplitStage(none, windows, splitting))) == []
    (record,) = stores.finished(MapStage(windows, given=False)).manifest.records
    assert record.facts == {"rows": 0, "documents": 0}
