"""Boards, fillings and dates exactly at their bounds."""

from datetime import date

import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.files import BLOCK_BYTES
from raypipe.leaderboard.boards import BOARDS, Board
from raypipe.leaderboard.fill import Filled, fill
from raypipe.leaderboard.findings import broken, does_not_apply, holds, refuse_broken
from raypipe.leaderboard.lines import read_run_lines
from raypipe.leaderboard.metadata import _months_later as months_later
from raypipe.leaderboard.metadata import check_metadata, read_metadata
from raypipe.leaderboard.rules import check_lines
from raypipe.leaderboard.script import reciprocal_rank


def test_boards_take_what_their_scripts_and_guidelines_say():
    passage, document = BOARDS["msmarco-passage"], BOARDS["msmarco-doc"]
    # MS MARCO passage: 8,841,823 passages, 6,980 dev and 6,837 eval queries, MRR@10 of 1,000 rows.
    assert (passage.num_passages, passage.cutoff, passage.depths[0][1]) == (8_841_823, 10, 1000)
    assert dict(passage.query_sets) == {"dev": 6980, "eval": 6837}
    # Documents: 5,193 dev and 5,793 eval queries, MRR@100 of 100 rows.
    assert (document.num_passages, document.cutoff, document.depths[0][1]) == (None, 100, 100)
    assert dict(document.query_sets) == {"dev": 5193, "eval": 5793}
    for board in (passage, document):
        assert board.full_rows and board.metadata and board.form == "msmarco"
    for name in ("trec-dl", "trec-car", "local"):
        board = BOARDS[name]
        assert not board.full_rows and not board.metadata and board.cutoff is None
        assert board.form == ("msmarco" if name == "local" else "trec")
    depths = {pattern.pattern: rows for pattern, rows in BOARDS["trec-dl"].depths}
    assert list(depths.values()) == [100, 1000, 1000] and depths["[0-9]+"] == 1000
    assert [rows for _, rows in BOARDS["trec-car"].depths] == [1000]


def lines_of(tmp_path, text):
    path = tmp_path / "run"
    path.write_text(text)
    return read_run_lines(path)


def rules(tmp_path, text, board, **options):
    found = check_lines(lines_of(tmp_path, text), board, **options)
    return {finding.rule: finding for finding in found}


NUMBERS = BOARDS["msmarco-passage"].depths[0][0]
SMALL = Board("small", "msmarco", ((NUMBERS, 2),), num_passages=50, cutoff=10, full_rows=True)


def test_ids_are_below_the_number_of_passages_without_leading_zeros(tmp_path):
    assert rules(tmp_path, "1\t0\t1\n1\t49\t2\n", SMALL)["passage ids"].ok
    for bad in ("50", "07", "00"):
        found = rules(tmp_path, f"1\t1\t1\n1\t{bad}\t2\n", SMALL)["passage ids"]
        assert not found.ok and f"first '{bad}'" in found.detail and "1 ids" in found.detail


def test_rows_are_at_most_and_at_least_the_depth(tmp_path):
    one, two = "1\t1\t1\n", "1\t1\t1\n1\t2\t2\n"
    three = two + "1\t3\t3\n"
    found = [rules(tmp_path, text, SMALL) for text in (one, two, three)]
    assert [each["depth"].ok for each in found] == [True, True, False]
    assert [each["rows"].ok for each in found] == [False, True, True]
    assert "query 1 with 3" in found[2]["depth"].detail
    assert "query 1 with 1" in found[0]["rows"].detail
    assert rules(tmp_path, one, SMALL, fewer_rows=True)["rows"].ok


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
    assert len(lines_of(tmp_path, "\n".join(rows) + "\n").tags) == 3
    assert lines_of(tmp_path, "1 Q0 a 1 2 x\n1 Q0 b 2 1 x\n").tags == ("x",)


def test_rankings_of_lines_are_by_rank_within_each_query(tmp_path):
    run = lines_of(tmp_path, "2\ta\t2\n1\tc\t1\n2\tb\t1\n1\td\t2\n")
    assert run.rankings() == {"2": ["b", "a"], "1": ["c", "d"]}
    assert run.query_ids == ["2", "1"]


def test_rows_below_are_those_of_the_earlier_run_that_the_query_lacks():
    own = {"1": ["a", "b", "c"], "2": ["a"], "9": ["z"]}
    earlier = {"1": ["x"], "2": ["b", "a", "c"], "3": ["d", "e", "f"]}
    found = fill(own, earlier, queries=["2", "1", "3", "4"], depth=2)
    assert found == Filled({"2": ["a", "b"], "1": ["a", "b"], "3": ["d", "e"]}, 2, 3, 1)
    assert fill(own, earlier, queries=["1", "2"], depth=None) == Filled(
        {"1": ["a", "b", "c"], "2": ["a"]}, 0, 0, 0
    )
    assert fill({}, {}, queries=["1"], depth=3) == Filled({}, 0, 0, 0)


METADATA = {"team": "t", "model_description": "d", "paper": "", "code": "", "type": "reranking"}


def metadata(submission="20261120-mine", earlier=(), **changes):
    found = check_metadata(
        BOARDS["msmarco-passage"], submission, {**METADATA, **changes}, list(earlier)
    )
    return {finding.rule: finding.ok for finding in found}


@pytest.mark.parametrize(
    ("until", "ok"),
    [
        ("2026/11/20", True),
        ("2026/11/19", False),
        ("2027/08/20", True),
        ("2027/08/21", False),
        ("2027/13/01", False),
        ("2027-01-01", False),
        (5, False),
    ],
)
def test_an_embargo_ends_nine_months_after_the_day_at_the_latest(until, ok):
    assert metadata(embargo_until=until)["embargo"] is ok


def test_months_later_is_the_last_day_where_the_month_is_shorter():
    assert months_later(date(2026, 5, 31), 9) == date(2027, 2, 28)
    assert months_later(date(2027, 5, 31), 9) == date(2028, 2, 29)
    assert months_later(date(2026, 1, 31), 9) == date(2026, 10, 31)
    assert months_later(date(2026, 3, 31), 1) == date(2026, 4, 30)
    assert months_later(date(2026, 4, 15), 9) == date(2027, 1, 15)
    assert months_later(date(2026, 3, 15), 9) == date(2026, 12, 15)


def test_an_id_has_a_day_that_there_is():
    for submission in ("20260229-x", "20261301-x", "2026112-x", "20261120", "20261120-", "x"):
        found = metadata(submission)
        assert not found["id"] and not found["two in 30 days"], submission
        assert not metadata(submission, embargo_until="2026/12/01")["embargo"]
    assert metadata("20280229-x")["id"]


def test_texts_that_are_missing_empty_or_unknown_break_the_metadata():
    assert metadata()["metadata"] and metadata(type="full ranking")["metadata"]
    assert metadata(embargo_until=None)["metadata"]
    for change in ({"team": ""}, {"model_description": ""}, {"paper": None}, {"code": 3}):
        assert not metadata(**change)["metadata"], change
    for change in ({"type": "other"}, {"more": "x"}, {"type": 7}):
        assert not metadata(**change)["metadata"], change


@pytest.mark.parametrize(
    ("others", "ok"),
    [
        ([], True),
        (["20261119-a"], True),
        (["20261119-a", "20261118-b"], False),
        (["20261022-a", "20261119-b"], False),
        (["20261021-a", "20261119-b"], True),  # the first of them is 30 days old
        (["20261219-a", "20261121-b"], False),
        (["20261220-a", "20261121-b"], True),
        (["20261119-a", "20261120-mine"], True),  # itself
        (["20261105-a", "20261205-b"], True),  # 30 days between them
        (["20261106-a", "20261205-b"], False),
    ],
)
def test_two_others_within_30_days_are_too_many(tmp_path, others, ok):
    for name in others:
        (tmp_path / f"{name}-metadata.json").write_text('{"team": "t"}')
    (tmp_path / "20261118-z-metadata.json").write_text('{"team": "another"}')
    (tmp_path / "notes-metadata.json").write_text('{"team": "t"}')
    assert metadata(earlier=[tmp_path])["two in 30 days"] is ok


@pytest.mark.parametrize("text", ["", "[]", '"x"', "{", "3"])
def test_metadata_that_are_no_object_are_refused(tmp_path, text):
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(InputError, match="expected a JSON object with team"):
        read_metadata(path)
    with pytest.raises(InputError, match="expected a JSON object"):
        read_metadata(tmp_path / "absent.json")


def test_only_a_broken_rule_refuses():
    refuse_broken([holds("a", "x"), does_not_apply("b", "y")])
    with pytest.raises(InputError) as caught:
        refuse_broken([holds("a", "x"), broken("b", "y"), broken("c", "z")])
    assert caught.value.problems == ["b: y", "c: z"]
    assert (holds("a", "x").applies, broken("a", "x").applies) == (True, True)
    assert not does_not_apply("a", "x").applies and does_not_apply("a", "x").ok


def test_the_script_looks_at_the_cutoff_and_at_no_grade():
    qrels = pa.table(
        [["1", "1", "2", "3"], ["a", "b", "c", "d"], [0, 1, 1, 1]], schema=schema.QRELS
    )
    rankings = {"1": ["x", "a", "b"], "2": ["x", "y", "c"], "9": ["a"]}
    assert reciprocal_rank(rankings, qrels, cutoff=2) == (0.5 / 3, 3)
    assert reciprocal_rank(rankings, qrels, cutoff=3) == ((1 / 2 + 1 / 3) / 3, 3)
    assert reciprocal_rank(rankings, qrels, cutoff=1) == (0.0, 3)


def test_the_submissions_that_are_too_many_are_named_by_their_days(tmp_path):
    for name in ("20261118-b", "20261102-a"):
        (tmp_path / f"{name}-metadata.json").write_text('{"team": "t"}')
    board = BOARDS["msmarco-passage"]
    (found,) = [f for f in check_metadata(board, "20261120-mine", METADATA, [tmp_path]) if not f.ok]
    assert found.detail == "the team has 20261102-a, 20261118-b in the 30 days from 2026-11-02"
