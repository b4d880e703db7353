import pytest

from raypipe.leaderboard.boards import Board
from raypipe.leaderboard.rules import check_lines, read_run_lines


def lines_of(tmp_path, text):
    path = tmp_path / "run"
    path.write_text(text)
    return read_run_lines(path)


def rules(tmp_path, text, board, **options):
    found = check_lines(lines_of(tmp_path, text), board, **options)
    return {finding.rule: finding for finding in found}


SMALL = Board(task="small", form="msmarco", depths={"[0-9]+": 2}, num_passages=50, full_rows=True)


def test_ids_are_below_the_number_of_passages_without_leading_zeros(tmp_path):
    assert rules(tmp_path, "1\t0\t1\n1\t49\t2\n", SMALL)["passage ids"].ok
    for bad in ("50", "07", "00"):
        found = rules(tmp_path, f"1\t1\t1\n1\t{bad}\t2\n", SMALL)["passage ids"]
        assert not found.ok and f"first '{bad}'" in found.detail and "1 ids" in found.detail


@pytest.mark.parametrize("depths", [{}, {".*": None}])
def test_numbered_ids_need_no_pattern_and_other_ids_are_told(tmp_path, depths):
    board = Board(task="own", depths=depths, num_passages=50)
    assert rules(tmp_path, "1\t49\t1\n", board)["passage ids"].ok
    for bad in ("d7", "-1", "+1", "1.0", "\u0661", "9" * 5000):
        told = rules(tmp_path, f"1\t1\t1\n1\t{bad}\t2\n", board)["passage ids"]
        assert not told.ok and "1 ids are not in the collection of 0 to 49" in told.detail
        assert len(told.detail) < 200


def test_rows_are_at_most_and_at_least_the_depth(tmp_path):
    one, two = "1\t1\t1\n", "1\t1\t1\n1\t2\t2\n"
    three = two + "1\t3\t3\n"
    found = [rules(tmp_path, text, SMALL) for text in (one, two, three)]
    assert [each["depth"].ok for each in found] == [True, True, False]
    assert [each["rows"].ok for each in found] == [False, True, True]
    assert "query 1 with 3" in found[2]["depth"].detail
    assert "query 1 with 1" in found[0]["rows"].detail
    assert rules(tmp_path, one, SMALL, fewer_rows=True)["rows"].ok
