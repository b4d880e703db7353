import pytest

from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError


@pytest.mark.parametrize("grade", [2**31 - 1, 1 - 2**31])
def test_grades_of_32_bits_are_read_and_larger_ones_are_refused(tmp_path, grade):
    path = tmp_path / "q.txt"
    path.write_text(f"1 0 a {grade}\n")
    assert read_qrels(path)["relevance"].to_pylist() == [grade]
    path.write_text(f"1 0 a {grade + (1 if grade > 0 else -2)}\n")
    with pytest.raises(InputError, match="beyond 32 bits"):
        read_qrels(path)


def test_a_header_is_one_in_the_first_line_alone(tmp_path):
    path = tmp_path / "q.txt"
    path.write_text("query-id corpus-id score\nquery-id corpus-id score\n")
    with pytest.raises(InputError, match="line 2: expected an integer grade, found 'score'"):
        read_qrels(path)
