import pytest

from raypipe.cli.upkeep import lines_of
from raypipe.driver.upkeep.status import Status

AT_WORK = {"state": "at work", "shards": 8, "done": 3, "rows": 8000, "rows_done": 1200}
RATED = {**AT_WORK, "rows_per_second": 300.0, "seconds_left": 23}


def test_a_running_invocation_tells_what_is_at_work_and_how_long_it_takes():
    stores = {
        "a": {"state": "complete"},
        "b": {"state": "complete", "reused": True},
        "c": RATED,
        "d": AT_WORK,
        "e": {"state": "waiting"},
        "f": {"state": "waiting", "earlier": True},
        "g": {"state": "complete", "earlier": True},
        "h": {**RATED, "state": "incomplete"},
        "i": {"state": "not begun", "earlier": True},
    }
    found = Status("running", 0, "host is working", stores, began="2026-11-23T02:00:00Z")
    assert [*lines_of(found, verbose=True)] == [
        "running: host is working",
        "  began 2026-11-23T02:00:00Z",
        "  a: complete",
        "  b: complete, reused",
        "  c: at work 3 of 8 shards, 1,200 of 8,000 rows, 300.0 rows/s, 0:00:23 left",
        "  d: at work 3 of 8 shards, 1,200 of 8,000 rows",
        "  e: waiting",
        "  f: waiting, one of an earlier invocation is there",
        "  g: complete, of an earlier invocation",
        "  h: incomplete 3 of 8 shards, 1,200 of 8,000 rows",
        "  i: not begun, one of an earlier invocation is there",
    ]


def test_complete_stores_are_counted_where_no_details_are_wanted():
    stores = {"a": {"state": "complete"}, "b": {"state": "complete", "reused": True}, "c": AT_WORK}
    *_, at_work, counted = lines_of(Status("failed", 3, "no memory", stores), verbose=False)
    assert at_work == "  c: at work 3 of 8 shards, 1,200 of 8,000 rows"
    assert counted == "  2 of 3 stores complete, 1 reused"


def test_stores_of_earlier_invocations_are_counted_apart():
    """A night that ended before its work has used none of them."""
    earlier = {"state": "complete", "earlier": True}
    failed = Status("failed", 2, "bad", {"a": earlier, "b": earlier, "c": {"state": "not begun"}})
    assert [*lines_of(failed, verbose=False)][1:] == [
        "  c: not begun",
        "  2 stores of earlier invocations, complete",
    ]
    part = Status("complete", 0, "complete", {"a": {"state": "complete"}, "b": earlier})
    assert [*lines_of(part, verbose=False)][1:] == [
        "  1 of 1 stores complete, 0 reused",
        "  1 stores of earlier invocations, complete",
    ]


def test_the_current_generation_and_what_was_refused_since_are_told_whatever_ended_last():
    made = {"made": "2026-11-23T02:00:00+00:00", "passages": 5, "rows_copied": 3, "seconds": 1.5}
    current = {"number": 2, **made, "age_seconds": 90061}
    refused = {"number": 3, **made, "refused": "dense: overlap@10 0.1 < 0.9", "age_seconds": None}
    found = Status("failed", 5, "beyond", generation=current, refused=[refused])
    line = "2026-11-23T02:00:00+00:00, 5 passages, 3 rows copied, 1.5 s"
    assert [*lines_of(found, verbose=False)][1:] == [
        f"  current for 1 day, 1:01:01: generation 2, {line}",
        f"  refused: generation 3 (refused), {line}; refused: dense: overlap@10 0.1 < 0.9",
    ]


@pytest.mark.parametrize(
    ("state", "code", "reason", "told"),
    [
        ("running", 0, "process 7 is working", "running: process 7 is working"),
        ("complete", 0, "complete", "complete: exit 0"),
        ("failed", 3, "no memory", "failed: exit 3, no memory"),
    ],
)
def test_the_first_line_does_not_contradict_the_state(state, code, reason, told):
    assert [*lines_of(Status(state, code, reason), verbose=False)] == [told]
