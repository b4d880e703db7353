"""Official files, most of MS MARCO: the number of records of each, and the MD5 of its archive.

Source: the tables of microsoft/MSMARCO-Passage-Ranking, MSMARCO-Document-Ranking and the TREC
Deep Learning 2021 guidelines.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from raypipe.data.facts import FileFacts
from raypipe.data.files import plain_name

MSMARCO_V1_PASSAGES = 8_841_823

NUM_RECORDS = {
    "collection.tsv": MSMARCO_V1_PASSAGES,
    "queries.train.tsv": 808_731,
    "queries.dev.tsv": 101_093,
    "queries.eval.tsv": 101_092,
    "queries.dev.small.tsv": 6_980,
    "queries.eval.small.tsv": 6_837,
    "qrels.dev.small.tsv": 7_437,
    "qrels.train.tsv": 532_761,
    "top1000.dev": 6_668_967,
    "top1000.dev.tsv": 6_668_967,
    "top1000.eval": 6_515_736,
    "top1000.eval.tsv": 6_515_736,
    "triples.train.small.tsv": 39_780_811,
    "qidpidtriples.train.full.2.tsv": 397_768_673,
    "msmarco-docs.tsv": 3_213_835,
    "passv2_train_queries.tsv": 277_144,
    "passv2_dev_queries.tsv": 3_903,
    "passv2_dev2_queries.tsv": 4_281,
    "docv2_train_queries.tsv": 322_196,
    "docv2_dev_queries.tsv": 4_552,
    "docv2_dev2_queries.tsv": 5_000,
    "paragraphcorpus.cbor": 29_678_367,
    "dedup.articles-paragraphs.cbor": 29_794_697,
}
"""Numbers of records by file name without .gz, .bz2 or .zst. TREC CAR's, v1.5 and v2.0, are
ir_datasets' counts; Anserini indexes 29,794,689 of the latter."""

ARCHIVE_MD5 = {
    "collectionandqueries.tar.gz": "31644046b18952c1386cd4564ba2ae69",
    "triples.train.small.tar.gz": "c13bf99ff23ca691105ad12eab837f84",
    "top1000.dev.tar.gz": "8c140662bdf123a98fbfe3bb174c5831",
}

_COLLECTIONS = {
    "MS MARCO v2 passage": (r"msmarco_passage_\d+", 70, 138_364_198),
    "MS MARCO v2 document": (r"msmarco_doc_\d+", 60, 11_959_635),
}


def check_known(facts: FileFacts) -> list[str]:
    """A warning for a file with an official name but another number of records or MD5."""
    warnings = []
    expected = NUM_RECORDS.get(plain_name(Path(facts.name)))
    if expected is not None and facts.num_records != expected:
        whose = "TREC CAR" if ".cbor" in facts.name else "MS MARCO"
        warnings.append(
            f"{facts.name}: {facts.num_records:,} records; the official {whose} file of this"
            f" name has {expected:,}: a subset, an incomplete copy or another collection"
        )
    md5 = ARCHIVE_MD5.get(facts.name)
    if md5 is not None and facts.md5 != md5:
        warnings.append(f"{facts.name}: MD5 {facts.md5}; the official archive has {md5}")
    return warnings


def check_known_collection(files: Sequence[FileFacts]) -> list[str]:
    """The warnings of `check_known` for each file, and for collections of many files as a whole."""
    warnings = [warning for facts in files for warning in check_known(facts)]
    for title, (pattern, num_files, num_records) in _COLLECTIONS.items():
        parts = [facts for facts in files if re.match(rf"{pattern}(\.|$)", facts.name)]
        counts = len(parts), sum(part.num_records for part in parts)
        if parts and counts != (num_files, num_records):
            warnings.append(
                f"{title}: {counts[0]} files with {counts[1]:,} records; the official collection"
                f" has {num_files} with {num_records:,}: a subset or an incomplete copy"
            )
    return warnings


def has_dense_ids(files: Sequence[FileFacts]) -> bool:
    """Whether these are the official MS MARCO v1 passages, whose ids are 0 to n-1 in order."""
    return [(plain_name(Path(f.name)), f.num_records) for f in files] == [
        ("collection.tsv", MSMARCO_V1_PASSAGES)
    ]
