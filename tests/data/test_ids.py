import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.data.ids import IdIndex, build_id_index, hash_ids
from raypipe.errors import InputError


def reader(ids):
    def ids_of_rows(rows):
        assert list(rows) == sorted(set(rows.tolist()))
        return [ids[row] for row in rows]

    return ids_of_rows


def three_hashes(ids):
    """A hash with so few values that ids collide all the time."""
    return hash_ids(ids) % np.uint64(3)


def build(path, ids, **options):
    batches = [ids[start : start + 7] for start in range(0, len(ids), 7)]
    build_id_index(batches, path, ids_of_rows=reader(ids), **options)
    return IdIndex(path, reader(ids), **options)


def test_every_id_finds_its_row_and_others_find_none(tmp_path):
    ids = [f"msmarco_passage_{n % 70:02}_{n * 7919}" for n in range(5000)]
    index = build(tmp_path / "index", ids)
    assert len(index) == 5000
    asked = [ids[4999], "msmarco_passage_00_1", ids[0], ids[0], "", ids[123]]
    assert index.rows_of(asked).tolist() == [4999, -1, 0, 0, -1, 123]
    assert index.rows_of(ids).tolist() == list(range(5000))
    assert index.rows_of([]).dtype == np.int64 and len(index.rows_of([])) == 0


def test_ids_that_look_alike_are_different(tmp_path):
    ids = ["7", "007", "7.0", "\u0667", "a", "A", "e\u0301", "\u00e9"]
    index = build(tmp_path / "index", ids)
    assert index.rows_of([*ids, "07", "\u00c9"]).tolist() == [*range(8), -1, -1]


@given(
    st.lists(st.text(max_size=4), unique=True, min_size=1, max_size=40),
    st.lists(st.text(max_size=3)),
)
def test_colliding_hashes_are_told_apart_by_the_ids(tmp_path_factory, ids, others):
    path = tmp_path_factory.mktemp("ids") / "index"
    index = build(path, ids, hash_ids=three_hashes)
    expected = {passage_id: row for row, passage_id in enumerate(ids)}
    asked = ids[::-1] + others
    assert index.rows_of(asked).tolist() == [expected.get(value, -1) for value in asked]


@pytest.mark.fault(24, "3 of 3 repeated ids are named with both rows, and no index is written")
@pytest.mark.parametrize("hashing", [hash_ids, three_hashes])
def test_repeated_ids_are_refused_with_both_rows_and_nothing_is_written(tmp_path, hashing):
    ids = ["a", "b", "c", "b", "d", "a", "b"]
    with pytest.raises(InputError) as caught:
        build(tmp_path / "index", ids, hash_ids=hashing)
    assert caught.value.problems == [
        "row 4: passage id 'b' again, first in row 2; ids must be unique",
        "row 6: passage id 'a' again, first in row 1; ids must be unique",
        "row 7: passage id 'b' again, first in row 2; ids must be unique",
    ]
    assert not (tmp_path / "index").exists()


@pytest.mark.fault(24, "of 6,000 the first ten are named and the others counted")
@pytest.mark.parametrize("num_ids", [9, 3000])
def test_the_first_ten_repeated_ids_by_row_are_shown_and_the_rest_counted(tmp_path, num_ids):
    ids = [f"p{n}" for n in range(num_ids)] * 3
    with pytest.raises(InputError) as caught:
        build(tmp_path / "index", ids)
    problems = caught.value.problems
    assert len(problems) == 11
    for n, problem in enumerate(problems[:10]):
        row = num_ids + n
        assert problem.startswith(
            f"row {row + 1:,}: passage id 'p{row % num_ids}' again, first in row"
        )
    assert problems[10] == f"and {2 * num_ids - 10:,} more repeated ids"


def test_the_index_of_no_ids_finds_nothing(tmp_path):
    index = build(tmp_path / "index", [])
    assert len(index) == 0 and index.rows_of(["a"]).tolist() == [-1]


def test_the_file_is_the_same_on_every_machine(tmp_path):
    build(tmp_path / "index", ["b", "a"])
    hashes, rows = np.load(tmp_path / "index")
    digests = {"a": "40f89e395b66422f", "b": "8472c2e34d854f75"}  # printf a | b2sum -l 64
    by_hash = sorted(
        (int.from_bytes(bytes.fromhex(digests[value]), "little"), value) for value in "ab"
    )
    assert hashes.tolist() == [number for number, _ in by_hash]
    assert rows.tolist() == ["ba".index(value) for _, value in by_hash]


CHILD = """
import resource, sys
import numpy as np
from pathlib import Path
from raypipe.data.ids import IdIndex, build_id_index
N = int(sys.argv[2])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def ids_of_rows(rows):
    return [f"msmarco_passage_00_{row}" for row in rows.tolist()]
def batches():
    for start in range(0, N, 10_000):
        yield [f"msmarco_passage_00_{row}" for row in range(start, start + 10_000)]
before = peak()
path = Path(sys.argv[1])
build_id_index(batches(), path, ids_of_rows=ids_of_rows)
index = IdIndex(path, ids_of_rows)
rows = np.arange(0, N, 997)
assert index.rows_of(ids_of_rows(rows)).tolist() == rows.tolist()
print(peak() - before)
"""


def test_a_million_ids_take_less_than_80_mb(tmp_path):
    command = [sys.executable, "-c", CHILD, str(tmp_path / "index"), "1000000"]
    grown_mb = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert grown_mb < 80
    assert (tmp_path / "index").stat().st_size < 16_001_000
