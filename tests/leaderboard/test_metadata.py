import json
from datetime import date

import pytest
from small_board import METADATA, PASSAGE, broken, write

from raypipe.errors import InputError
from raypipe.leaderboard.boards import BOARDS
from raypipe.leaderboard.submission import _last_day as last_day
from raypipe.leaderboard.submission import check_metadata, metadata_template, read_metadata


@pytest.mark.parametrize(
    ("submission", "change", "rule"),
    [
        ("20261120-mine", {}, []),
        ("2026-11-20-mine", {}, ["id", "two in 30 days"]),
        ("20261320-mine", {}, ["id", "two in 30 days"]),
        ("20261120-mine", {"type": "other"}, ["metadata"]),
        ("20261120-mine", {"team": 5}, ["metadata"]),
        ("20261120-mine", {"taem": "t"}, ["metadata"]),
        ("20261120-mine", {"embargo_until": "2027/08/19"}, []),
        ("20261120-mine", {"embargo_until": "2027/08/20"}, ["embargo"]),
        ("20261120-mine", {"embargo_until": "2026/11/19"}, ["embargo"]),
        ("20261120-mine", {"embargo_until": "2027-01-01"}, ["embargo"]),
    ],
)
def test_rules_of_metadata(submission, change, rule):
    assert broken(check_metadata(PASSAGE, submission, METADATA | change, [])) == rule


def test_a_team_submits_twice_in_30_days(tmp_path):
    def known(name, team="t"):
        write(tmp_path / f"{name}-metadata.json", json.dumps(METADATA | {"team": team}))

    known("20261101-a")
    known("20261101-b", team="other")
    known("20261021-c")  # 30 days before: no longer counted
    assert broken(check_metadata(PASSAGE, "20261120-mine", METADATA, [tmp_path])) == []
    known("20261110-d")
    found = check_metadata(PASSAGE, "20261120-mine", METADATA, [tmp_path])
    assert broken(found) == ["two in 30 days"]


def test_two_before_and_after_are_two_in_no_30_days(tmp_path):
    for name in ("20261026-a", "20261215-b"):
        write(tmp_path / f"{name}-metadata.json", json.dumps(METADATA))
    assert broken(check_metadata(PASSAGE, "20261120-mine", METADATA, [tmp_path])) == []
    write(tmp_path / "20261105-c-metadata.json", json.dumps(METADATA))
    found = check_metadata(PASSAGE, "20261120-mine", METADATA, [tmp_path])
    assert broken(found) == ["two in 30 days"]


@pytest.mark.fault(39, "4 of 4 tags that are a path or no word are refused")
@pytest.mark.parametrize("submission", ["a/b", "../x", "a b", "", "v1.2", "x" * 26])
def test_a_trec_tag_is_one_word_and_no_path(submission):
    assert broken(check_metadata(BOARDS["trec-dl"], submission, {}, [])) == ["id"]


@pytest.mark.parametrize("task", ["msmarco-passage", "msmarco-doc"])
def test_a_filled_in_template_holds_and_an_empty_one_does_not(task):
    found = metadata_template(BOARDS[task])
    assert broken(check_metadata(BOARDS[task], "20261120-mine", found, [])) == ["metadata"]
    found |= {"team": "t", "model_description": "m"}
    assert broken(check_metadata(BOARDS[task], "20261120-mine", found, [])) == []


def test_a_board_without_metadata_has_no_template():
    with pytest.raises(InputError, match="--task trec-dl: .* one of msmarco-passage, msmarco-doc"):
        metadata_template(BOARDS["trec-dl"])


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
        ("2027/08/19", True),
        ("2027/08/20", False),
        ("2027/13/01", False),
        ("2027-01-01", False),
        (5, False),
    ],
)
def test_an_embargo_ends_nine_months_after_the_day_at_the_latest(until, ok):
    assert metadata(embargo_until=until)["embargo"] is ok


def test_nine_months_end_the_day_before_as_the_board_counts():
    # The board's own example: a submission of 2020/11/01 has an embargo until 2021/07/31.
    assert last_day(date(2020, 11, 1), 9) == date(2021, 7, 31)
    assert last_day(date(2026, 4, 15), 9) == date(2027, 1, 14)
    assert last_day(date(2026, 3, 15), 9) == date(2026, 12, 14)
    assert last_day(date(2026, 1, 31), 9) == date(2026, 10, 30)
    assert last_day(date(2026, 6, 1), 9) == date(2027, 2, 28)
    assert last_day(date(9998, 12, 1), 9) == date(9999, 8, 31)


def test_nine_months_end_with_the_month_where_it_is_shorter():
    assert last_day(date(2026, 5, 28), 9) == date(2027, 2, 27)
    for day in (29, 30, 31):
        assert last_day(date(2026, 5, day), 9) == date(2027, 2, 28)
    assert last_day(date(2027, 5, 29), 9) == date(2028, 2, 28)
    assert last_day(date(2027, 5, 31), 9) == date(2028, 2, 29)
    assert last_day(date(2026, 3, 31), 1) == date(2026, 4, 30)


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
    with pytest.raises(InputError, match="JSON object, as `raypipe leaderboard template`"):
        read_metadata(path)
    with pytest.raises(InputError, match="expected a JSON object"):
        read_metadata(tmp_path / "absent.json")


def test_the_submissions_that_are_too_many_are_named_by_their_days(tmp_path):
    for name in ("20261118-b", "20261102-a"):
        (tmp_path / f"{name}-metadata.json").write_text('{"team": "t"}')
    board = BOARDS["msmarco-passage"]
    (found,) = [f for f in check_metadata(board, "20261120-mine", METADATA, [tmp_path]) if not f.ok]
    assert found.detail == "the team has 20261102-a, 20261118-b in the 30 days from 2026-11-02"
