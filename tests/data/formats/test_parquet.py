"""Parquet collections: any range of rows is that of the whole file."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe.data.facts import count_file
from raypipe.data.formats.tables import ROWS as ROWS_OF_FILE
from raypipe.data.formats.tables import parquet_files
from raypipe.data.reading import read_records
from raypipe.errors import CorruptError, InputError

ROWS = 57
TABLE = pa.table(
    {
        "url": ["x"] * ROWS,
        "text": [f"text {n}" for n in range(ROWS)],
        "_id": [f"d{n}" for n in range(ROWS)],
        "title": [None if n % 3 else f"t{n}" for n in range(ROWS)],
    }
)
EXPECTED = [(f"d{n}", f"text {n}" if n % 3 else f"t{n} text {n}") for n in range(ROWS)]


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "passages.parquet", row_group_size=10)
    return tmp_path / "passages.parquet"


def read(path, start, stop, facts):
    return list(read_records(path, format="parquet", start=start, stop=stop, facts=facts))


@pytest.mark.parametrize("every", [1, 7, 10, 100])
@pytest.mark.parametrize("batch", [3, 1024])
def test_every_range_is_that_of_the_whole_file(path, monkeypatch, every, batch):
    monkeypatch.setattr("raypipe.data.formats.tables.BATCH_ROWS", batch)
    facts = count_file(path, format="parquet", checkpoint_records=every)
    assert facts.num_records == ROWS and facts.num_bytes == path.stat().st_size
    for start, stop in [(0, ROWS), (0, 1), (9, 11), (10, 20), (33, 57), (56, 57), (5, 5)]:
        assert read(path, start, stop, facts) == EXPECTED[start:stop]


def test_the_row_groups_before_a_range_are_not_read(tmp_path):
    path = tmp_path / "p.parquet"
    pq.write_table(TABLE, path, row_group_size=10, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[pq.ParquetFile(path).metadata.row_group(0).column(1).data_page_offset + 40] ^= 1
    path.write_bytes(content)

    def rows(skip):
        with path.open("rb") as stream:
            found = ROWS_OF_FILE.records(stream, name=str(path), at=0, first=0, skip=skip)
            return [row[0] for row in found]

    assert rows(50) == [f"d{n}" for n in range(50, ROWS)]
    with pytest.raises(InputError, match="p.parquet: cannot be read as Parquet"):
        rows(5)


def test_a_changed_byte_is_found_by_the_shard_of_its_part(path):
    facts = count_file(path, format="parquet", checkpoint_records=10)
    assert len(facts.checkpoints) == len(facts.stretches) == 6
    content = bytearray(path.read_bytes())
    at = facts.checkpoints[5] + 100
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises((CorruptError, InputError)):
        read(path, 50, 57, facts)


def test_whole_numbers_may_be_ids_and_an_empty_table_has_no_passage(tmp_path):
    for ids in ([7, 8], []):
        table = pa.table({"docid": pa.array(ids, pa.int64()), "contents": ["a", "b"][: len(ids)]})
        table = table.cast(pa.schema([("docid", pa.int64()), ("contents", pa.string())]))
        pq.write_table(table, tmp_path / "p.parquet")
        facts = count_file(tmp_path / "p.parquet", format="parquet")
        found = read(tmp_path / "p.parquet", 0, len(ids), facts)
        assert found == [("7", "a"), ("8", "b")][: len(ids)]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"text": ["a"]}, "missing passage_id; found text (for passage_id also docno"),
        ({"id": ["a"]}, "missing text; found id (for text also contents, passage, segment, body)"),
    ],
)
def test_a_missing_column_is_told_before_the_file_is_read(tmp_path, columns, told):
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    with pytest.raises(InputError) as caught:
        parquet_files([tmp_path])
    assert told in str(caught.value)
    (tmp_path / "p.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match="p.parquet: expected Parquet, found another content"):
        parquet_files([tmp_path])


def test_a_column_that_is_there_twice_is_told_and_one_that_nothing_needs_is_not(tmp_path):
    def files(*names):
        columns = [pa.array(["x"])] * len(names)
        pq.write_table(pa.table(columns, names=names), tmp_path / "p.parquet")
        return parquet_files([tmp_path])

    assert files("id", "text", "url", "url") == [tmp_path / "p.parquet"]
    for name in ("id", "text", "title"):
        with pytest.raises(InputError, match=f"each column once, found {name} twice$"):
            files("id", "text", "title", name)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (
            {"id": ["1", None], "text": ["a", "b"]},
            "column id: 1 rows are null, the first of them row 2; leave",
        ),
        (
            {"id": ["1", "2"], "text": ["a", None]},
            "column text: 1 rows are null, the first of them row 2; leave",
        ),
        (
            {"id": [1.5, 2], "text": ["a", "b"]},
            "found double; pandas makes fractions of whole numbers",
        ),
        ({"id": ["1", "a b"], "text": ["a", "b"]}, "row 2: white space or a control character"),
    ],
)
def test_rows_that_are_no_passages_are_refused(tmp_path, columns, told):
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    facts = count_file(tmp_path / "p.parquet", format="parquet")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "p.parquet", 0, 2, facts)
    assert told in str(caught.value)


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_a_null_is_told_by_its_row_wherever_the_reading_begins(tmp_path, start):
    table = pa.table({"id": ["1", "2", "3", "4", None], "text": ["a"] * 5})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=2)
    facts = count_file(tmp_path / "p.parquet", format="parquet")
    with pytest.raises(InputError, match="1 rows are null, the first of them row 5; leave them"):
        read(tmp_path / "p.parquet", start, 5, facts)


@pytest.mark.parametrize("kind", [pa.null(), pa.string()], ids=str)
def test_titles_that_are_all_null_are_no_titles_whatever_their_type(tmp_path, kind):
    columns = {"id": [7], "text": ["a"], "title": pa.nulls(1, kind)}
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    facts = count_file(tmp_path / "p.parquet", format="parquet")
    assert read(tmp_path / "p.parquet", 0, 1, facts) == [("7", "a")]


def test_a_long_text_that_many_rows_share_is_refused_though_it_is_held_once(tmp_path):
    same = pa.DictionaryArray.from_arrays(pa.array([0] * 5_000, pa.int32()), ["a" * 100_000])
    ids = [f"p{row}" for row in range(5_000)]
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"passage_id": ids, "text": same}), path)
    facts = count_file(path, format="parquet")
    with pytest.raises(InputError, match=r"p\.parquet: expected at most 200 times its"):
        read(path, 0, 5_000, facts)
