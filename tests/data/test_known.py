"""Official counts of collections, and what differs from them."""

import dataclasses

import pytest

from raypipe.data import official as known
from raypipe.data.facts import FileFacts
from raypipe.data.official import check_known, check_known_collection, has_dense_ids

FACTS = FileFacts(
    name="collection.tsv",
    num_bytes=1,
    sha256="00",
    num_records=8_841_823,
    compressed=False,
    checkpoint_records=100_000,
    checkpoints=(0,),
    stretches=("00",),
)


def facts(name, num_records):
    return dataclasses.replace(FACTS, name=name, num_records=num_records)


@pytest.mark.parametrize(
    ("name", "num_records"),
    [
        ("collection.tsv", 8_841_823),
        ("collection.tsv.gz", 8_841_823),
        ("msmarco-docs.tsv.gz", 3_213_835),
        ("paragraphcorpus.cbor", 29_678_367),
        ("dedup.articles-paragraphs.cbor", 29_794_697),
        ("my-own.tsv", 3),
    ],
)
def test_official_counts_and_other_names_give_no_warning(name, num_records):
    assert check_known(facts(name, num_records)) == []


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("collection.tsv", 8_841_822, "8,841,823"),
        ("collection.tsv.zst", 8_841_822, "8,841,823"),
        ("msmarco-docs.tsv", 3_213_836, "3,213,835"),
    ],
)
def test_an_official_name_with_another_count_is_named_with_both(name, found, expected):
    (warning,) = check_known(facts(name, found))
    assert warning.startswith(f"{name}: {found:,} records") and expected in warning


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


def test_the_v2_documents_are_checked_as_a_whole():
    parts = [facts(f"msmarco_doc_{n:02}.gz", 199_327) for n in range(60)]
    parts[0] = facts("msmarco_doc_00", 11_959_635 - 59 * 199_327)
    assert check_known_collection(parts) == []
    assert check_known_collection([*parts, facts("msmarco_doc_xx", 1)]) == []
    (warning,) = check_known_collection([*parts[1:], facts("collection.gz", 5)])
    assert warning.startswith("MS MARCO v2 document: 59 files with")
    assert known.MSMARCO_V1_PASSAGES == 8_841_823 == known.NUM_RECORDS["collection.tsv"]
    (one,) = check_known_collection([facts("msmarco-docs.tsv", 5)])
    assert one.startswith("msmarco-docs.tsv: 5 records")


def test_a_corpus_of_trec_car_that_is_cut_between_two_records_is_told():
    (warning,) = check_known(facts("paragraphcorpus.cbor", 29_678_366))
    assert "29,678,366 records; the official TREC CAR file of this name has 29,678,367" in warning
