"""Workers that are ended because memory is short: fewer of them go on, and no row is blamed."""

import pytest
from scripted_loop import PLAIN, done, play

from raypipe.cluster.backend import Lost, OutOfMemory, Ready
from raypipe.errors import IncompleteError


@pytest.mark.fault(
    17, "2 of 3 workers ended for memory, with one attempt allowed: complete, no row suspected"
)
def test_fewer_workers_go_on_and_no_attempt_is_spent_and_no_row_blamed():
    script = [Ready(1, {}), Ready(2, {}), Ready(3, {}), OutOfMemory(2, "full"), done(1, 0)]
    script += [OutOfMemory(3, "full"), done(1, 2), done(1, 1)]
    found = play(*script, num_actors=3, max_attempts=1, skips_rows=True)
    assert found.error is None and found.backend.started == 3, "none is started in their places"
    assert [s[:2] for s in found.backend.submitted] == [(1, 0), (2, 1), (3, 2), (1, 1)] + [(1, 2)]
    assert {s[3] for s in found.backend.submitted} == {PLAIN}
    report = found.report
    assert (report.num_out_of_memory, report.num_lost, report.num_done) == (2, 0, 3)
    assert found.ledger.notes[0] == {
        "event": "out of memory", "shard": 1, "reason": "full", "workers": 2,
    }  # fmt: skip


@pytest.mark.fault(
    17, "a single worker is ended so often as attempts are allowed, and the reason is told"
)
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_single_worker_that_finds_too_little_memory_ends_the_invocation(limit):
    script = [one for n in range(1, limit + 1) for one in (Ready(n, {}), OutOfMemory(n, "full"))]
    found = play(*script, max_attempts=limit)
    assert isinstance(found.error, IncompleteError)
    told = f"simulated: shard 00000 rows [0, 10) found too little memory {limit} times, "
    assert str(found.error).startswith(told + "with no other worker beside it: full")
    assert "smaller resources.budget_tokens" in str(found.error)
    last = [Ready(limit, {}), *[done(limit, n) for n in range(3)]]
    assert play(*script[:-2], *last, max_attempts=limit).error is None


def test_what_is_done_in_between_begins_the_count_anew_and_a_crash_is_counted_apart():
    script = []
    for number, index in ((1, 0), (3, 1), (5, 2)):
        script += [Ready(number, {}), OutOfMemory(number, "full"), Ready(number + 1, {})]
        script += [done(number + 1, index)] + ([Lost(number + 1, "x")] if index < 2 else [])
    found = play(*script, max_attempts=2)
    assert found.error is None
    assert (found.report.num_out_of_memory, found.report.num_lost) == (3, 2)


def test_a_worker_that_was_opening_is_told_so():
    found = play(OutOfMemory(1, "full"), OutOfMemory(2, "full"), max_attempts=2)
    assert "simulated: a worker that was opening found too little memory 2 times" in str(
        found.error
    )


def test_a_shard_that_was_committed_before_its_worker_was_ended_is_counted_and_not_sent_again():
    found = play(Ready(1, {}), 0, OutOfMemory(1, "full"), Ready(2, {}), done(2, 1), done(2, 2))
    assert found.error is None
    assert [sent[1] for sent in found.backend.submitted] == [0, 1, 2]
    assert (found.report.num_done, found.report.num_out_of_memory) == (3, 1)


def test_a_shard_committed_unheard_begins_the_count_anew():
    script = [Ready(1, {}), OutOfMemory(1, "full"), Ready(2, {}), 0, Lost(2, "x"), Ready(3, {})]
    script += [OutOfMemory(3, "full"), Ready(4, {}), done(4, 1), done(4, 2)]
    assert play(*script, max_attempts=2).error is None


@pytest.mark.parametrize("ready", [True, False])
def test_workers_that_die_without_a_word_end_it_with_what_can_be_done(ready):
    script = [e for n in (1, 2, 3) for e in ([Ready(n, {})] if ready else []) + [Lost(n, "gone")]]
    found = play(*script, max_attempts=3)
    told = "failed 3 times" if ready else "3 workers in a row ended before their first shard"
    assert isinstance(found.error, IncompleteError) and told in str(found.error)
    assert "'gone'); " in str(found.error) and "with more memory" in str(found.error)
