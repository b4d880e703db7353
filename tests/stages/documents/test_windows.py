"""The number of each document's passages, and the rows that follow from it."""

from dataclasses import replace

from raypipe.stages.documents.windows import WindowsStage, first_rows
from raypipe.stages.stage import Sizing


def test_the_first_rows_are_the_sums_of_the_numbers_of_passages(split):
    for size in (1, 2, 100):
        windows, _, _ = split(Sizing(shard_rows=size))
        assert first_rows(windows).tolist() == [0, 3, 4, 5, 6, 8]
        assert sum(r.facts["passages"] for r in windows.manifest.records) == 8


def test_what_is_in_front_names_no_other_store_and_everything_else_does(documents, splitting):
    def name(**settings):
        return WindowsStage(documents, replace(splitting, **settings)).spec.fingerprint()

    assert name(title_words=5, headings_words=9) == name()
    others = [name(length=4), name(stride=1), name(at_most=2), name(by="sentences")]
    assert len({name(), *others}) == 5


def test_a_beat_comes_before_each_group_of_documents(stores, documents, splitting):
    beats = []
    stage = WindowsStage(documents, splitting)
    stores.finished(stage, Sizing(shard_rows=2), beats=beats)
    assert len(beats) == 3
    assert stage.estimated_bytes(5, 5) == 20
