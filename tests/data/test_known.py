"""Official counts and hashes of collections, and what differs from them."""

import dataclasses

import pytest

from raypipe.data import facts as known
from raypipe.data.facts import FileFacts, check_known, check_known_collection, has_dense_ids
from raypipe.data.formats.fields import parse_candidate
from raypipe.storage.files import note_in

FACTS = FileFacts(
    name="collection.tsv",
    num_bytes=1,
    sha256="00",
    md5="00",
    num_records=8_841_823,
    compressed=False,
    checkpoint_records=100_000,
    checkpoints=(0,),
    stretches=("00",),
)


def facts(name, num_records, md5="00"):
    return dataclasses.replace(FACTS, name=name, num_records=num_records, md5=md5)


OFFICIAL = {
    "collection.tsv": 8_841_823, "queries.dev.small.tsv": 6_980, "qrels.dev.small.tsv": 7_437,
    "top1000.dev": 6_668_967, "passv2_dev_queries.tsv": 3_903, "paragraphcorpus.cbor": 29_678_367,
    "dedup.articles-paragraphs.cbor": 29_794_697,
    "queries.train.tsv": 808_731, "queries.dev.tsv": 101_093, "queries.eval.tsv": 101_092,
    "queries.eval.small.tsv": 6_837, "qrels.train.tsv": 532_761, "top1000.dev.tsv": 6_668_967,
    "top1000.eval": 6_515_736, "top1000.eval.tsv": 6_515_736,
    "triples.train.small.tsv": 39_780_811, "qidpidtriples.train.full.2.tsv": 397_768_673,
    "msmarco-docs.tsv": 3_213_835, "passv2_train_queries.tsv": 277_144,
    "passv2_dev2_queries.tsv": 4_281, "docv2_train_queries.tsv": 322_196,
    "docv2_dev_queries.tsv": 4_552, "docv2_dev2_queries.tsv": 5_000,
}  # fmt: skip
"""As the tables of the official repositories give them."""


def test_an_official_count_gives_no_warning_and_another_is_named_with_both():
    for name, count in OFFICIAL.items():
        for official in (name, f"{name}.gz", f"{name}.zst"):
            assert check_known(facts(official, count)) == []
            (warning,) = check_known(facts(official, count - 1))
            assert warning.startswith(f"{official}: {count - 1:,} records; the official ")
            assert f"{count:,}" in warning
    assert check_known(facts("my-own.tsv", 3)) == []


def test_the_v2_collection_is_checked_as_a_whole():
    parts = [facts(f"msmarco_passage_{n:02}.gz", 1_976_631) for n in range(70)]
    parts[0] = facts("msmarco_passage_00.gz", 138_364_198 - 69 * 1_976_631)
    assert check_known_collection(parts) == []
    (warning,) = check_known_collection(parts[:-1])
    assert warning.startswith("MS MARCO v2 passage: 69 files with 136,387,567 records")


def test_only_the_official_v1_collection_is_declared_dense():
    assert has_dense_ids([facts("collection.tsv.gz", 8_841_823)])
    assert not has_dense_ids([facts("collection.tsv", 33_184)])
    assert not has_dense_ids([facts("passages.tsv", 8_841_823)])
    assert not has_dense_ids([FACTS, FACTS])


def test_official_archives_and_the_collection_of_documents():
    md5 = {"triples.train.small.tar.gz": "c13bf99ff23ca691105ad12eab837f84",
           "top1000.dev.tar.gz": "8c140662bdf123a98fbfe3bb174c5831"}  # fmt: skip
    md5["collectionandqueries.tar.gz"] = "31644046b18952c1386cd4564ba2ae69"
    for name, value in md5.items():
        assert check_known(facts(name, 3, value)) == []
        (warning,) = check_known(facts(name, 3, "ab" * 16))
        assert "official archive has" in warning and value in warning and "ab" * 16 in warning
    parts = [facts(f"msmarco_doc_{n:02}.gz", 199_327) for n in range(60)]
    parts[0] = facts("msmarco_doc_00", 11_959_635 - 59 * 199_327)
    assert check_known_collection(parts) == []
    assert check_known_collection([*parts, facts("msmarco_doc_xx", 1)]) == []
    (warning,) = check_known_collection([*parts[1:], facts("collection.gz", 5)])
    assert warning.startswith("MS MARCO v2 document: 59 files with")
    assert known.MSMARCO_V1_PASSAGES == 8_841_823 == known.NUM_RECORDS["collection.tsv"]
    (one,) = check_known_collection([facts("top1000.dev", 5)])
    assert one.startswith("top1000.dev: 5 records")


def test_a_candidates_further_tabs_belong_to_the_passage():
    assert parse_candidate(b"q\tp\tthe query\ta\tb") == ("q", "p", "the query")
    assert parse_candidate(b"q\tp\t\t") == ("q", "p", "")
    with pytest.raises(ValueError, match="four tab-separated columns.*found 3 in 'q.tp.tx'"):
        parse_candidate(b"q\tp\tx")
    for bad, field in ((b"\tp\tq\tx", "query id"), (b"q\tp p\tq\tx", "passage id")):
        with pytest.raises(ValueError, match=field):
            parse_candidate(bad)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, None), (b'{"a": 1}', {"a": 1}), (b'{"a": 1', None), (b"\xff\xfe\x00", None)],
)
def test_a_note_that_cannot_be_read_says_nothing(tmp_path, content, expected):
    if content is not None:
        (tmp_path / "note.json").write_bytes(content)
    assert note_in(tmp_path / "note.json") == expected
