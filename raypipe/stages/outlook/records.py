"""Some records of a collection's files, in blocks that are evenly spaced, read without the rest."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from raypipe.data.facts import FileFacts

SHARE = 0.02
LEAST_ROWS, MOST_ROWS = 10_000, 40_000
"""A collection of fewer rows than the first is read whole: that takes a second or two."""
NUM_BLOCKS = 400
ONE_PASS_RECORDS = 200_000
"""A file of so many records is read from its beginning to the last block. Of a longer one, blocks
are moved to the checkpoint before them, and where there is none to the beginning."""
Block = tuple[int, int]
"""Records [start, stop)."""
Read = Callable[[Path, int, int, FileFacts], Iterator[tuple[str, ...]]]


def blocks_of(num_rows: int, num_blocks: int = NUM_BLOCKS) -> list[Block]:
    """Evenly spaced blocks with 2% of the rows, but at least 10,000 and at most 40,000 of them."""
    wanted = min(num_rows, MOST_ROWS, max(LEAST_ROWS, round(SHARE * num_rows)))
    if wanted == num_rows:
        return [(0, num_rows)] if num_rows else []
    edges = [wanted * i // num_blocks for i in range(num_blocks + 1)]
    gap = (num_rows - wanted) / num_blocks
    starts = [round(gap * (i + 0.5)) + edges[i] for i in range(num_blocks)]
    return [
        (start, start + edges[i + 1] - edges[i])
        for i, start in enumerate(starts)
        if edges[i + 1] > edges[i]
    ]


def sampled_records(
    files: Sequence[Path], facts: Sequence[FileFacts], read: Read
) -> list[tuple[str, ...]]:
    """What `read` makes of the records in the blocks, in order.

    Of a large compressed file the first records stand for all. Bad records are left out, and the
    file is not compared with what was counted, unless it is read to its end: whoever computes the
    store will do both.

    Raises:
        InputError: bad records in a file that was read to its end.
    """
    found: list[tuple[str, ...]] = []
    first = 0
    blocks = blocks_of(sum(of_file.num_records for of_file in facts))
    for file, of_file in zip(files, facts, strict=True):
        last = first + of_file.num_records
        own = [
            (max(start, first) - first, min(stop, last) - first)
            for start, stop in blocks
            if start < last and stop > first
        ]
        found += _of_file(file, of_file, own, read)
        first = last
    return found


def _of_file(
    file: Path, facts: FileFacts, blocks: Sequence[Block], read: Read
) -> Iterator[tuple[str, ...]]:
    if not blocks:
        return
    seeks = not facts.compressed and bool(facts.checkpoints)
    if not seeks or facts.num_records <= ONE_PASS_RECORDS:
        if facts.num_records > ONE_PASS_RECORDS:
            blocks = [(0, sum(stop - start for start, stop in blocks))]
        records = read(file, 0, facts.num_records, facts)
        at = 0
        for start, stop in blocks:
            yield from islice(records, start - at, stop - at)
            at = stop
        return
    size = facts.checkpoint_records
    wanted: dict[int, int] = {}
    for start, stop in blocks:  # those behind one checkpoint are read as one, from there on
        wanted[start // size] = wanted.get(start // size, 0) + stop - start
    for checkpoint, number in wanted.items():
        records = read(file, checkpoint * size, facts.num_records, facts)
        yield from islice(records, number)
