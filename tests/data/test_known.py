import dataclasses

import pytest

from raypipe.data.dense import check_dense_ids
from raypipe.data.facts import FileFacts
from raypipe.data.known import check_known, check_known_collection, has_dense_ids
from raypipe.errors import InputError

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


@pytest.mark.parametrize(
    ("name", "num_records"),
    [
        ("collection.tsv", 8_841_823),
        ("collection.tsv.gz", 8_841_823),
        ("queries.dev.small.tsv", 6_980),
        ("qrels.dev.small.tsv", 7_437),
        ("top1000.dev", 6_668_967),
        ("passv2_dev_queries.tsv", 3_903),
        ("my-own.tsv", 3),
    ],
)
def test_official_counts_and_other_names_give_no_warning(name, num_records):
    assert check_known(facts(name, num_records)) == []


@pytest.mark.parametrize("name", ["collection.tsv", "collection.tsv.zst"])
def test_an_official_name_with_another_count_is_named_with_both(name):
    (warning,) = check_known(facts(name, 8_841_822))
    assert warning.startswith(f"{name}: 8,841,822 records") and "8,841,823" in warning


def test_an_official_archive_with_another_md5_is_named():
    name, md5 = "collectionandqueries.tar.gz", "31644046b18952c1386cd4564ba2ae69"
    assert check_known(facts(name, 0, md5)) == []
    (warning,) = check_known(facts(name, 0, "ab" * 16))
    assert md5 in warning and "ab" * 16 in warning


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


def test_dense_ids_pass():
    check_dense_ids([["0", "1"], [], ["2"]], name="collection.tsv")


@pytest.mark.parametrize("bad", ["3", "-1", "02", "+2", "1", "9223372036854775808", "x", "\u0662"])
def test_an_id_that_is_not_its_row_is_named(bad):
    with pytest.raises(InputError) as caught:
        check_dense_ids([["0", "1"], [bad]], name="c.tsv")
    assert caught.value.problems == [f"c.tsv: row 2: expected id 2, found {ascii(bad)}"]


def test_a_gap_names_the_first_ten_and_counts_the_rest():
    with pytest.raises(InputError) as caught:
        check_dense_ids([[str(n) for n in range(30) if n != 5]], name="c.tsv")
    problems = caught.value.problems
    assert problems[0] == "c.tsv: row 5: expected id 5, found '6'"
    assert problems[9] == "c.tsv: row 14: expected id 14, found '15'"
    assert problems[10] == "and 14 more problems" and len(problems) == 11
