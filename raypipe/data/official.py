"""Official collections: the number of records of each file.

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
    "msmarco-docs.tsv": 3_213_835,
    "paragraphcorpus.cbor": 29_678_367,
    "dedup.articles-paragraphs.cbor": 29_794_697,
}
"""By file name without .gz, .bz2 or .zst. TREC CAR's, v1.5 and v2.0, are ir_datasets' counts;
Anserini indexes 29,794,689 of the latter."""

_COLLECTIONS = {
    "MS MARCO v2 passage": (r"msmarco_passage_\d+", 70, 138_364_198),
    "MS MARCO v2 document": (r"msmarco_doc_\d+", 60, 11_959_635),
}


def check_known(facts: FileFacts) -> list[str]:
    """A warning for a file with an official name but another number of records."""
    expected = NUM_RECORDS.get(plain_name(Path(facts.name)))
    if expected is None or facts.num_records == expected:
        return []
    whose = "TREC CAR" if ".cbor" in facts.name else "MS MARCO"
    return [
        f"{facts.name}: {facts.num_records:,} records; the official {whose} file of this"
        f" name has {expected:,}: a subset, an incomplete copy or another collection"
    ]


def check_known_collection(files: Sequence[FileFacts]) -> list[str]:
    """The warnings of `check_known` for each file, and for collections of many files as a whole."""
    warnings = [warning for facts in files for warning in check_known(facts)]
    for title, (pattern, num_files, num_records) in _COLLECTIONS.items():
        parts = [facts for facts in files if re.match(rf"{pattern}(\.|$)", facts.name)]
        found = len(parts), sum(part.num_records for part in parts)
        if parts and found != (num_files, num_records):
            warnings.append(
                f"{title}: {found[0]} files with {found[1]:,} records; the official collection"
                f" has {num_files} with {num_records:,}: a subset or an incomplete copy"
            )
    return warnings


def has_dense_ids(files: Sequence[FileFacts]) -> bool:
    """Whether these are the official MS MARCO v1 passages, whose ids are 0 to n-1 in order."""
    return [(plain_name(Path(f.name)), f.num_records) for f in files] == [
        ("collection.tsv", MSMARCO_V1_PASSAGES)
    ]
