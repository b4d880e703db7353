"""TREC CAR's paragraph collections, versions 1.5 and 2.0, in CBOR.

`trec-car` has a blank between the parts of a text, as the code of Nogueira & Cho 2019, and
`trec-car-tools` has nothing there, as TREC CAR's own tools: word pieces around links differ.
"""

from collections.abc import Sequence
from pathlib import Path

from raypipe.data.files.inputs import find_files


def files(inputs: Sequence[Path]) -> list[Path]:
    """The file of paragraphs of each folder, and each file named."""
    return find_files(
        inputs,
        patterns=[
            r"paragraphcorpus\.cbor",
            r"dedup\.articles-paragraphs\.cbor",
            r".*paragraphs\.cbor",
            r".*\.paragraphs",
        ],
        expected="dedup.articles-paragraphs.cbor, paragraphcorpus.cbor or *.paragraphs",
    )
