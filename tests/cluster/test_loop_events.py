"""The loop event by event: what is submitted to whom, what counts as a failure, what is told."""

import pytest
from scripted_loop import PLAIN, SHARDS, done, play

from raypipe.cluster.backend import (
    Beating,
    Failed,
    Lost,
    Preempted,
    Ready,
)
from raypipe.errors import IncompleteError, InputError, RefusedError


def kinds(ledger):
    return [note["event"] for note in ledger.notes]


def test_one_worker_computes_shard_after_shard_and_is_let_go():
    of_first = {"num_copied": 7, "num_tokens": 50, "cpu_seconds": 1.25}
    first = done(1, 0, 2.0, num_bytes=30, **of_first)
    found = play(Ready(1, {"x": 1}), first, done(1, 1), done(1, 2, num_copied=2))
    assert found.error is None and found.facts == [({"x": 1}, None)]
    assert found.backend.submitted == [(1, n, (), PLAIN) for n in range(3)]
    assert (found.backend.released, found.backend.killed) == ([1], [])
    assert found.reports == [1, 2, 3]
    report = found.report
    assert (report.num_planned, report.num_reused, report.num_done) == (3, 0, 3)
    # Ready after one second, the last commit after four.
    assert (report.seconds, report.working_seconds) == (4.0, 3.0)
    told = {"event": "done", "shard": 0, "seconds": 2.0, "copied": 7}
    so_far = [[note["so_far"][0], note["so_far"][1]] for note in found.ledger.notes]
    rows = [sum(shard.num_rows for shard in SHARDS[:n]) for n in (1, 2, 3)]
    assert so_far == [[rows[0], 1.0], [rows[1], 2.0], [rows[2], 3.0]]
    told |= {"tokens": 50, "cpu_seconds": 1.25, "so_far": so_far[0]}
    assert found.ledger.notes[0] == told
    assert report.num_copied == 9
    assert (report.num_tokens, report.cpu_seconds, report.num_bytes) == (50, 1.25, 30)
    assert report.num_rows == sum(shard.num_rows for shard in SHARDS)


def test_while_no_shard_is_committed_what_is_at_work_is_told_again_and_again():
    """An event a second: shards are given in seconds 1 and 2, and ended in 7 and 8."""
    script = [Ready(1, {}), Ready(2, {}), *[Beating(1)] * 4, done(1, 0), done(2, 1)]
    limits = {"num_actors": 2, "shards": 2, "silent_seconds": 99.0}
    found = play(*script, quiet_seconds=3.0, **limits)
    assert found.reports == [0, 0, 1, 2] and found.at_work == [2, 2, 1, 0]
    assert play(*script, **limits).reports == [1, 2]


def test_a_shard_that_was_committed_unheard_counts_with_its_bytes():
    found = play(Ready(1, {}), 0, Lost(1, "x"), Ready(2, {}), done(2, 1), done(2, 2))
    report = found.report
    assert (report.num_done, report.num_rows, report.num_bytes) == (3, 30, 10)


def test_the_share_in_which_a_gpu_was_idle_is_noted_where_it_was_measured():
    """Of the shard's whole time; it stands in no record."""
    busy = done(1, 0, 2.0, computing_seconds=1.9)
    beyond = done(1, 1, 2.0, computing_seconds=2.1)
    notes = play(Ready(1, {}), busy, beyond, done(1, 2)).ledger.notes
    assert [note.get("gpu_idle") for note in notes] == [0.05, 0.0, None]
    assert "gpu_idle" not in notes[2]


def test_what_stands_is_kept_and_no_more_workers_start_than_there_is_work():
    found = play(Ready(1, {}), done(1, 0), done(1, 2), held=[1], num_actors=1)
    assert [index for _, index, _, _ in found.backend.submitted] == [0, 2]
    assert (found.report.num_planned, found.report.num_reused, found.report.num_done) == (3, 1, 2)
    found = play(Ready(2, {}), Ready(1, {}), done(1, 2), done(2, 0), held=[1], num_actors=9)
    assert found.backend.started == 2
    assert found.backend.submitted == [(2, 0, (), PLAIN), (1, 2, (), PLAIN)]
    assert play(shards=3, held=[0, 1, 2]).backend.started == 0


def test_a_shard_is_tried_so_often_and_no_more_and_goes_to_the_front():
    error = ValueError("x")
    script = [Ready(1, {}), Failed(1, SHARDS[0], error), Ready(2, {}), done(2, 0), done(2, 1)]
    found = play(*script, done(2, 2), max_attempts=2)
    assert found.error is None
    assert [index for _, index, _, _ in found.backend.submitted] == [0, 0, 1, 2]
    note = found.ledger.notes[0]
    assert note == {"event": "failed", "shard": 0, "reason": "ValueError('x')", "attempt": 1}
    script = [Ready(1, {}), Failed(1, SHARDS[0], error), Ready(2, {}), Failed(2, SHARDS[0], error)]
    found = play(*script, max_attempts=2)
    assert isinstance(found.error, IncompleteError) and found.error.__cause__ is error
    assert "rows [0, 10) failed 2 times" in str(found.error)


@pytest.mark.parametrize("end", [Lost, Preempted])
def test_a_shard_that_a_lost_worker_had_committed_is_not_computed_again(end):
    script = [Ready(1, {}), 0, end(1, "its node is gone"), Ready(2, {}), done(2, 1), done(2, 2)]
    found = play(*script)
    assert found.error is None and found.report.num_done == 3
    assert [index for _, index, _, _ in found.backend.submitted] == [0, 1, 2]
    assert [note["event"] for note in found.ledger.notes] == ["done"] * 3


def test_failures_are_counted_by_shard():
    error = ValueError("x")
    script = [Ready(1, {}), Failed(1, SHARDS[0], error), Ready(2, {}), done(2, 0)]
    script += [Failed(2, SHARDS[1], error), Ready(3, {}), done(3, 1), done(3, 2)]
    assert play(*script, max_attempts=2).error is None


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_workers_that_end_before_their_first_shard_are_counted(limit):
    script = [Failed(n, None, ValueError("no weights")) for n in range(1, limit + 1)]
    found = play(*script, max_attempts=limit)
    assert f"{limit} workers in a row ended before their first" in str(found.error)
    fewer = play(*script[:-1], Ready(limit, {}), *[done(limit, n) for n in range(3)],
                 max_attempts=limit)  # fmt: skip
    assert fewer.error is None


def test_workers_lost_while_opening_count_only_in_a_row():
    script = [Lost(1, "killed"), Lost(2, "killed"), Ready(3, {}), done(3, 0)]
    script += [Lost(4, "killed"), Lost(5, "killed"), Ready(6, {}), done(6, 1), done(3, 2)]
    found = play(*script, max_attempts=3, num_actors=2)
    assert found.error is None and found.report.num_lost == 4
    script = [Ready(1, {}), *[Lost(n, "killed") for n in (2, 3, 4)]]
    found = play(*script, max_attempts=3, num_actors=2)
    assert "3 workers in a row ended before their first" in str(found.error)


@pytest.mark.fault(
    4, "8 nodes taken in a row while workers open, with one attempt allowed: complete"
)
def test_nodes_taken_while_workers_open_count_never():
    script = [Preempted(n, "spot") for n in range(1, 9)]
    found = play(*script, Ready(9, {}), *[done(9, n) for n in range(3)], max_attempts=1)
    assert found.error is None and found.report.num_preempted == 8


@pytest.mark.parametrize("shard", [None, SHARDS[1]])
def test_what_a_stage_says_of_its_input_ends_the_invocation_at_once(shard):
    found = play(Ready(1, {}), Failed(1, shard, InputError("bad")), max_attempts=99)
    assert isinstance(found.error, InputError)
    where = "a worker that was opening" if shard is None else "rows [10, 20)"
    assert where in found.error.__notes__[0] and "simulated" in found.error.__notes__[0]


def test_preemption_costs_no_attempt_and_a_loss_does():
    script = [Ready(1, {}), Preempted(1, "spot"), Ready(2, {}), done(2, 0), done(2, 1), done(2, 2)]
    found = play(*script, max_attempts=1)
    assert found.error is None and kinds(found.ledger)[0] == "preempted"
    assert (found.report.num_preempted, found.report.num_lost) == (1, 0)
    found = play(Ready(1, {}), Lost(1, "killed"), max_attempts=1)
    assert "failed 1 times" in str(found.error) and "killed" in str(found.error)
    # One that had nothing yet is only replaced.
    script = [Preempted(1, "spot"), Ready(2, {}), done(2, 0), done(2, 1), done(2, 2)]
    assert play(*script, max_attempts=1).error is None


@pytest.mark.fault(
    19, "silence is noticed after its time and not before, in the first batch and later"
)
@pytest.mark.parametrize(("beats", "silence"), [(False, 100), (True, 50)])
def test_a_silent_worker_is_lost_after_its_time_and_not_before(beats, silence):
    """Silence of 50 seconds at a time; before the first batch more of it is allowed."""
    first = [Beating(1)] if beats else []
    waits = [None] * (silence // 50)
    rest = [done(1, 0), done(1, 1), done(1, 2)]
    limits = {"silent_seconds": 50, "silent_seconds_opening": 100}
    found = play(Ready(1, {}), *first, *waits, *rest, **limits)
    assert found.error is None and found.report.num_lost == 0
    again = [Ready(2, {}), done(2, 0), done(2, 1), done(2, 2)]
    found = play(Ready(1, {}), *first, *waits, None, *again, **limits)
    assert found.error is None and found.report.num_lost == 1 and 1 in found.backend.killed
    assert f"no heartbeat for {silence} s" in found.ledger.notes[0]["reason"]


@pytest.mark.fault(14, "what a worker says after it was given up is passed over")
def test_a_late_word_of_a_worker_that_was_given_up_changes_nothing():
    script = [Ready(1, {}), Preempted(1, "spot"), Ready(1, {}), Ready(2, {}), done(2, 0)]
    found = play(*script, done(2, 1), done(2, 2))
    assert found.error is None and found.report.num_preempted == 1 and len(found.facts) == 2


def test_when_all_is_done_no_process_ends_not_even_that_of_a_worker_that_is_still_opening():
    found = play(Ready(1, {}), done(1, 0), done(1, 1), done(1, 2), num_actors=2)
    assert found.error is None and found.backend.started == 2
    assert (found.backend.released, found.backend.killed) == ([1, 2], [])


def test_a_worker_that_was_refused_is_let_go_and_one_whose_code_failed_is_ended():
    refused = play(Failed(1, None, InputError("another folder")), num_actors=2)
    assert isinstance(refused.error, InputError)
    assert (refused.backend.released, refused.backend.killed) == ([1], [2])
    broken = play(Failed(1, None, ValueError("no weights")), max_attempts=1)
    assert (broken.backend.released, broken.backend.killed) == ([], [1])
    wrong = play(Ready(1, {}), Failed(1, SHARDS[0], InputError("bad")))
    assert (wrong.backend.released, wrong.backend.killed) == ([], [1])


def test_a_stop_ends_every_worker_and_is_raised():
    stop = RefusedError("stop")
    found = play(Ready(1, {}), should_stop=lambda: stop, num_actors=2)
    assert found.error is stop and sorted(found.backend.killed) == [1, 2]
