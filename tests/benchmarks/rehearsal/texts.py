"""Made-up passages, queries and judgements in the form of MS MARCO's files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from raypipe.storage.files import replacing
from rehearsal.words import Words

BLOCK = 10_000
"""Passages drawn from one random generator, so that the first N of more are those of N."""
MEAN_WORDS, SD_WORDS = 54.7, 21.0
"""Of MS MARCO's passages: 2.9 GB over 8,841,823 lines, 6.1 bytes a word."""
FEWEST_WORDS = 5
WORDS_OF_QUERY = 6
PASSAGES, QUERIES = 0, 1
"""What a random generator is for; part of its seed."""


def write_passages(file: Path, words: Words, num_passages: int, seed: int) -> None:
    """Write lines of row TAB text; their words are independent draws, their lengths a gamma's.

    The first passages of a longer file with the same words and seed are those of a shorter one.
    """
    listed = words.listed()
    shape = (MEAN_WORDS / SD_WORDS) ** 2
    with replacing(file) as stream:
        for first in range(0, num_passages, BLOCK):
            generator = np.random.default_rng((seed, PASSAGES, first))
            drawn = generator.gamma(shape, MEAN_WORDS / shape, BLOCK)
            ends = np.cumsum(np.maximum(np.rint(drawn).astype(np.int64), FEWEST_WORDS)).tolist()
            numbers = words.draw(generator, ends[-1]).tolist()
            block = [listed[number] for number in numbers]
            rows = range(min(BLOCK, num_passages - first))
            begins = [0, *ends]
            stream.write(
                "".join(
                    f"{first + row}\t{' '.join(block[begins[row] : ends[row]])}\n" for row in rows
                ).encode()
            )


def made_up_queries(words: Words, num: int, seed: int) -> list[tuple[str, str]]:
    """(query_id, text) of queries of six words each; their ids begin at 2,000,000."""
    generator = np.random.default_rng((seed, QUERIES))
    listed = words.listed()
    numbers = words.draw(generator, num * WORDS_OF_QUERY).reshape(num, WORDS_OF_QUERY)
    texts = [" ".join(listed[number] for number in row) for row in numbers.tolist()]
    return [(str(2_000_000 + place), text) for place, text in enumerate(texts)]


def write_queries(file: Path, queries: Sequence[tuple[str, str]]) -> None:
    """Write lines of id TAB text."""
    with replacing(file) as stream:
        stream.writelines(f"{query_id}\t{text}\n".encode() for query_id, text in queries)


def write_judgements(
    file: Path, queries: Sequence[tuple[str, str]], num_passages: int, seed: int
) -> None:
    """Write one relevant passage for each query, drawn at random: measures of it mean nothing."""
    rows = np.random.default_rng((seed, QUERIES, 1)).integers(num_passages, size=len(queries))
    with replacing(file) as stream:
        stream.writelines(
            f"{query_id} 0 {row} 1\n".encode()
            for (query_id, _), row in zip(queries, rows.tolist(), strict=True)
        )
