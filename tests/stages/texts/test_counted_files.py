"""Records of several files as rows: batches of bounded size."""

from raypipe import schema
from raypipe.stages.texts.counted_files import batched
from raypipe.stages.texts.prepare import ConvertStage


def test_batches_hold_all_records_in_order_with_a_beat_before_each():
    beats = []
    records = [(f"d{n}", "t", "h", "b") for n in range(1025)]
    found = list(batched(iter(records), schema.DOCUMENTS, beats.append))
    assert [batch.num_rows for batch in found] == [1024, 1]
    assert found[1].to_pylist() == [
        {"document_id": "d1024", "title": "t", "headings": "h", "body": "b"}
    ]
    assert len(beats) == 1


def test_the_content_is_named_by_the_hashes_in_order_alone():
    def content(*hashes):
        facts = [type("Facts", (), {"sha256": sha256}) for sha256 in hashes]
        return ConvertStage([], facts, "msmarco-v1").content()

    assert content("a", "b") != content("b", "a")
    assert list(content("a")) == ["content:files"]
