import pytest

from raypipe.data.facts import count_file
from raypipe.data.formats.tables import text_files
from raypipe.data.reading import Tally, read_records
from raypipe.errors import InputError


def test_the_number_of_a_line_is_its_id_in_every_range(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"text\t{n}\n" for n in range(1, 40)))
    facts = count_file(path, format="txt", checkpoint_records=7)
    for start, stop in [(0, 39), (0, 1), (13, 15), (38, 39)]:
        found = list(read_records(path, format="txt", start=start, stop=stop, facts=facts))
        assert found == [(str(n), f"text\t{n}") for n in range(start + 1, stop + 1)]


def test_bytes_that_are_not_utf8_are_refused_by_line_or_replaced(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"a\n\xff\n")
    facts = count_file(path, format="txt")
    with pytest.raises(InputError, match="line 2: not UTF-8"):
        list(read_records(path, format="txt", start=0, stop=2, facts=facts))
    tally = Tally()
    found = read_records(
        path, format="txt", start=0, stop=2, facts=facts, errors="replace", tally=tally
    )
    assert list(found) == [("1", "a"), ("2", "\ufffd")] and tally.num_replaced == 1


def test_two_files_would_have_the_same_ids(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("x\n")
    with pytest.raises(InputError, match="b.txt: expected one .*found 2 files; line numbers are"):
        text_files([tmp_path])
    assert text_files([tmp_path / "a.txt"]) == [tmp_path / "a.txt"]
