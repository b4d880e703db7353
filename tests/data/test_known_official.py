"""Official counts and hashes."""

import dataclasses

import pytest

from raypipe.data import known
from raypipe.data.facts import FileFacts
from raypipe.data.known import check_known, check_known_collection

OFFICIAL = {
    "queries.train.tsv": 808_731, "queries.dev.tsv": 101_093, "queries.eval.tsv": 101_092,
    "queries.eval.small.tsv": 6_837, "qrels.train.tsv": 532_761, "top1000.dev.tsv": 6_668_967,
    "top1000.eval": 6_515_736, "top1000.eval.tsv": 6_515_736,
    "triples.train.small.tsv": 39_780_811, "qidpidtriples.train.full.2.tsv": 397_768_673,
    "msmarco-docs.tsv": 3_213_835, "passv2_train_queries.tsv": 277_144,
    "passv2_dev2_queries.tsv": 4_281, "docv2_train_queries.tsv": 322_196,
    "docv2_dev_queries.tsv": 4_552, "docv2_dev2_queries.tsv": 5_000,
}  # fmt: skip
"""As the tables of the official repositories give them."""


def facts_of(name, num_records=0, md5="00"):
    return FileFacts(
        name=name, num_bytes=1, sha256="", md5=md5, num_records=num_records, compressed=False,
        checkpoint_records=1, checkpoints=(), stretches=(),
    )  # fmt: skip


@pytest.mark.parametrize("name", OFFICIAL)
def test_official_counts(name):
    given = facts_of(name, OFFICIAL[name])
    assert check_known(given) == []
    assert check_known(dataclasses.replace(given, num_records=OFFICIAL[name] + 1)) != []
    assert check_known(facts_of(f"{name}.gz", OFFICIAL[name])) == []


def test_official_archives_and_the_collection_of_documents():
    md5 = {"triples.train.small.tar.gz": "c13bf99ff23ca691105ad12eab837f84",
           "top1000.dev.tar.gz": "8c140662bdf123a98fbfe3bb174c5831"}  # fmt: skip
    for name, value in md5.items():
        assert check_known(facts_of(name, 3, value)) == []
        assert "official archive has" in check_known(facts_of(name, 3))[0]
    parts = [facts_of(f"msmarco_doc_{n:02}.gz", 199_327) for n in range(60)]
    parts[0] = facts_of("msmarco_doc_00", 11_959_635 - 59 * 199_327)
    assert check_known_collection(parts) == []
    assert check_known_collection([*parts, facts_of("msmarco_doc_xx", 1)]) == []
    (warning,) = check_known_collection([*parts[1:], facts_of("collection.gz", 5)])
    assert warning.startswith("MS MARCO v2 document: 59 files with")
    assert known.MSMARCO_V1_PASSAGES == 8_841_823 == known.NUM_RECORDS["collection.tsv"]
    (one,) = check_known_collection([facts_of("top1000.dev", 5)])
    assert one.startswith("top1000.dev: 5 records")
