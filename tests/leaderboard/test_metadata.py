import json

import pytest
from small_board import METADATA, PASSAGE, broken, write

from raypipe.errors import InputError
from raypipe.leaderboard.boards import BOARDS
from raypipe.leaderboard.metadata import check_metadata, metadata_template


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
@pytest.mark.parametrize("submission", ["a/b", "../x", "a b", ""])
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
