"""A shard that is late is tried by a second worker, event by event."""

import pytest
from scripted_loop import CAREFUL, PLAIN, SHARDS, done, play

from raypipe.cluster.backend import Failed, Lost, OutOfMemory, Preempted, Ready
from raypipe.errors import IncompleteError, InputError, RowsFailed

LATE = [Ready(1, {}), Ready(2, {}), done(1, 0), done(1, 2), None]
"""Worker 1 has done shards 0 and 2 in a second each; 2 has had shard 1 for 52 seconds."""
TRIED = [(1, 0, (), PLAIN), (2, 1, (), PLAIN), (1, 2, (), PLAIN), (1, 1, (), PLAIN)]


def late(*script, **limits):
    return play(*LATE, *script, **{"num_actors": 2, "max_attempts": 1, **limits})


def events(found):
    return [note["event"] for note in found.ledger.notes]


def test_a_worker_without_a_shard_tries_the_late_one_and_the_first_record_wins():
    found = late(done(1, 1))
    assert found.error is None and found.backend.submitted == TRIED
    assert (found.report.num_done, found.report.num_second_tries) == (3, 1)
    assert events(found) == ["done", "done", "second try", "discarded", "done"]
    assert found.ledger.notes[2] == {
        "event": "second try", "shard": 1, "expected_seconds_left": 52.0,
    }  # fmt: skip
    assert found.ledger.notes[3] == {
        "event": "discarded", "shard": 1, "seconds": 53.0, "second": False,
    }  # fmt: skip
    assert (found.backend.released, found.backend.killed) == ([2, 1], []), "both are free"


def test_the_first_try_may_win_too():
    found = late(done(2, 1))
    assert found.error is None and found.report.num_done == 3
    assert found.ledger.notes[3] == {
        "event": "discarded", "shard": 1, "seconds": 1.0, "second": True,
    }  # fmt: skip
    assert found.backend.released == [1, 2]


def test_two_answers_that_come_together_are_one_shard():
    found = late([done(2, 1), done(1, 1)])
    assert found.error is None and (found.report.num_done, found.reports) == (3, [1, 2, 3])
    assert events(found).count("done") == 3 and found.report.num_rows == 30


def test_a_shard_that_takes_no_longer_than_others_is_not_tried_again():
    script = [Ready(1, {}), Ready(2, {}), done(1, 0, 60.0), done(1, 2, 60.0), None, done(2, 1)]
    found = play(*script, num_actors=2)
    assert found.error is None and found.report.num_second_tries == 0


@pytest.mark.parametrize(
    "end",
    [Lost(1, "killed"), Failed(1, SHARDS[1], ValueError("disk full")), OutOfMemory(1, "full")],
    ids=lambda event: type(event).__name__,
)
def test_the_end_of_one_try_costs_no_attempt_while_the_other_goes_on(end):
    found = late(end, None, done(2, 1))
    assert found.error is None and found.report.num_done == 3
    assert found.backend.submitted == TRIED, "and it has no third in its place"
    assert found.backend.started == 2
    told = {"event": "one of two tries ended", "shard": 1}
    noted = [note for note in found.ledger.notes if note["event"] not in ("done", "second try")]
    if isinstance(end, OutOfMemory):
        told = {"event": "out of memory", "shard": 1, "workers": 1}
    assert noted == [{**told, "reason": getattr(end, "reason", "ValueError('disk full')")}]


def test_when_both_tries_end_the_last_one_counts():
    script = [Lost(1, "a"), Lost(2, "b")]
    found = late(*script)
    assert isinstance(found.error, IncompleteError) and "failed 1 times" in str(found.error)
    found = late(*script, Ready(3, {}), done(3, 1), max_attempts=2)
    assert found.error is None and events(found)[-2:] == ["failed", "done"]


def test_a_preempted_second_try_is_made_again():
    found = late(Preempted(1, "spot"), None, Ready(3, {}), done(3, 1))
    assert found.error is None and found.backend.started == 3
    assert found.backend.submitted == [*TRIED, (3, 1, (), PLAIN)]
    assert found.report.num_second_tries == 2 and found.backend.released == [2, 3]


def test_a_shard_that_was_committed_unheard_frees_the_other_worker():
    found = late(1, Lost(1, "its node is gone"))
    assert found.error is None and (found.report.num_done, found.report.num_lost) == (3, 1)
    assert found.backend.released == [2] and events(found)[-2:] == ["discarded", "done"]


def test_bad_input_that_one_of_two_tries_finds_ends_the_invocation():
    found = late(Failed(1, SHARDS[1], InputError("bad")), max_attempts=9)
    assert isinstance(found.error, InputError)


def test_rows_without_a_value_are_left_out_once_both_tries_found_them():
    wrong = [Failed(n, SHARDS[1], RowsFailed([14], "not finite")) for n in (1, 2)]
    found = late(*wrong, Ready(3, {}), done(3, 1), skips_rows=True)
    assert found.error is None
    assert found.backend.submitted == [*TRIED, (3, 1, (14,), PLAIN)]
    assert events(found).count("quarantined") == 1


def test_a_shard_over_which_a_worker_died_is_tried_by_one_worker_alone():
    """What a careful try leaves written is one batch, of one worker."""
    script = [Lost(1, "a"), Lost(2, "b"), Ready(3, {}), Ready(4, {}), None, done(3, 1)]
    found = late(*script, skips_rows=True, max_attempts=9)
    assert found.backend.started == 3, "no fourth was asked for, late as it is"
    assert found.backend.submitted == [*TRIED, (3, 1, (), CAREFUL)]


def test_a_worker_that_waits_is_not_silent_and_its_end_is_no_failure():
    script = [Ready(1, {}), Ready(2, {}), done(1, 0, 300.0), done(1, 2, 300.0)]
    found = play(*script, None, None, Lost(1, "x"), done(2, 1), num_actors=2, max_attempts=1,
                 silent_seconds=60.0, spare_seconds=500.0)  # fmt: skip
    assert found.error is None and events(found) == ["done"] * 3
    assert found.report.num_lost == 1 and found.backend.killed == []


def test_a_worker_that_waits_takes_a_shard_that_came_back_at_once():
    script = [Ready(1, {}), Ready(2, {}), done(1, 0, 300.0), done(1, 2, 300.0)]
    found = play(*script, Lost(2, "x"), done(1, 1), num_actors=2)
    assert found.error is None and found.backend.submitted == TRIED
    assert found.backend.started == 2 and found.report.num_second_tries == 0
