import pytest

from raypipe.evaluation.run_files.files import BLOCK_BYTES
from raypipe.leaderboard.lines import read_run_lines


def lines_of(tmp_path, text):
    path = tmp_path / "run"
    path.write_text(text)
    return read_run_lines(path)


@pytest.mark.fault(47, "a wrong line is named by its number")
def test_the_line_of_a_wrong_separator_is_told_behind_a_first_block_too(tmp_path):
    good = "".join(f"{n:07}\t{n:07}\t1\n" for n in range(BLOCK_BYTES // 18 + 5))
    num = good.count("\n")
    assert len(good) > BLOCK_BYTES
    assert lines_of(tmp_path, good).separators == ""
    found = lines_of(tmp_path, good + "1 2 3\n").separators
    assert found.startswith(f"line {num + 1}: ") and "'1 2 3'" in found
    assert lines_of(tmp_path, "1\t2\t1\n1 3\t2\n").separators.startswith("line 2: ")
    assert lines_of(tmp_path, "1\t2\t1\n1\t3\t2").separators == ""
    assert lines_of(tmp_path, "1\t2\t1.0\n").separators.startswith("line 1: ")


def test_the_first_three_tags_are_kept(tmp_path):
    rows = [f"1 Q0 p{n} {n} {-n} t{n % 5}" for n in range(1, 12)]
    assert lines_of(tmp_path, "\n".join(rows) + "\n").tags == ("t1", "t2", "t3")
    assert lines_of(tmp_path, "1 Q0 a 1 2 x\n1 Q0 b 2 1 x\n").tags == ("x",)


def test_rankings_of_lines_are_by_rank_within_each_query(tmp_path):
    run = lines_of(tmp_path, "2\ta\t2\n1\tc\t1\n2\tb\t1\n1\td\t2\n")
    assert run.rankings() == {"2": ["b", "a"], "1": ["c", "d"]}
    assert run.query_ids == ["2", "1"]
