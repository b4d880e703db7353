"""The loop event by event: what is submitted to whom, what counts as a failure, what is told."""

from types import SimpleNamespace

import pytest

from raypipe.cluster.backend import (
    Beating,
    Done,
    Failed,
    Lost,
    Mode,
    Preempted,
    Ready,
    Task,
)
from raypipe.cluster.bad_rows import Case, evidence_name, read_evidence
from raypipe.cluster.loop import Limits, run
from raypipe.cluster.simulated import SimulatedBackend, SimulatedLedger, World
from raypipe.errors import IncompleteError, InputError, RefusedError, RowsFailed
from raypipe.stages.stage import Needs
from raypipe.storage.records import Record, Shard


class Scripted:
    """A backend that plays given events; `None` in the script lets 50 seconds pass."""

    def __init__(self, ledger, script):
        self.ledger, self.script = ledger, list(script)
        self.clock, self.started = 0.0, 0
        self.submitted, self.killed = [], []

    def start(self, task):
        self.started += 1
        return self.started

    def submit(self, worker, shard, skip, mode):
        self.submitted.append((worker, shard.index, tuple(skip), mode))

    def wait(self, seconds):
        if not self.script:
            raise AssertionError("the script has ended and the loop goes on")
        event = self.script.pop(0)
        self.clock += 50.0 if event is None else 1.0
        if isinstance(event, Done) and event.record is not None:
            self.ledger.imagine(event.shard)
        return [] if event is None else [event]

    def kill(self, worker):
        self.killed.append(worker)

    def now(self):
        return self.clock


SHARDS = [Shard(i, 10 * i, 10 * i + 10) for i in range(3)]
PLAIN, CAREFUL, PROBE = Mode.PLAIN, Mode.CAREFUL, Mode.PROBE


def done(worker, index, seconds=1.0):
    return Done(worker, SHARDS[index], Record(SHARDS[index], "", 0, {}), seconds)


def survived(worker, index):
    return Done(worker, SHARDS[index], None, 1.0)


def play(*script, shards=3, skips_rows=False, held=(), **limits):
    ledger = SimulatedLedger(SHARDS[:shards])
    for index in held:
        ledger.commits[index] = 1
    backend = Scripted(ledger, script)
    told = SimpleNamespace(ledger=ledger, backend=backend, reports=[], facts=[], error=None)
    calls = {name: limits.pop(name) for name in ("should_stop",) if name in limits}
    try:
        told.report = run(
            Task(SimpleNamespace(skips_rows=skips_rows, needs=Needs()), ledger),
            backend,
            Limits(**limits),
            on_progress=lambda report: told.reports.append(report.num_done),
            on_ready=lambda facts, process: told.facts.append((facts, process)),
            **calls,
        )
    except Exception as error:
        told.error = error
    return told


def kinds(ledger):
    return [note["event"] for note in ledger.notes]


def test_one_worker_computes_shard_after_shard_and_is_let_go():
    found = play(Ready(1, {"x": 1}), done(1, 0, 2.0), done(1, 1), done(1, 2))
    assert found.error is None and found.facts == [({"x": 1}, None)]
    assert found.backend.submitted == [(1, n, (), PLAIN) for n in range(3)]
    assert found.backend.killed == [1] and found.reports == [1, 2, 3]
    report = found.report
    assert (report.num_planned, report.num_reused, report.num_done) == (3, 0, 3)
    # Ready after one second, the last commit after four.
    assert (report.seconds, report.working_seconds) == (4.0, 3.0)
    assert found.ledger.notes[0] == {"event": "done", "shard": 0, "seconds": 2.0}


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


def test_a_late_word_of_a_worker_that_was_given_up_changes_nothing():
    script = [Ready(1, {}), Preempted(1, "spot"), Ready(1, {}), Ready(2, {}), done(2, 0)]
    found = play(*script, done(2, 1), done(2, 2))
    assert found.error is None and found.report.num_preempted == 1 and len(found.facts) == 2


def test_a_stop_ends_every_worker_and_is_raised():
    stop = RefusedError("stop")
    found = play(Ready(1, {}), should_stop=lambda: stop, num_actors=2)
    assert found.error is stop and sorted(found.backend.killed) == [1, 2]


def test_rows_without_a_value_are_left_out_of_the_next_try():
    failed = Failed(1, SHARDS[0], RowsFailed([3, 4], "not finite"))
    script = [Ready(1, {}), failed, Ready(2, {}), done(2, 0), done(2, 1), done(2, 2)]
    found = play(*script, skips_rows=True, max_attempts=1)
    assert found.error is None
    assert [s[1:] for s in found.backend.submitted[:2]] == [(0, (), PLAIN), (0, (3, 4), PLAIN)]
    assert found.ledger.notes[:2] == [
        {"event": "quarantined", "shard": 0, "row": 3, "reason": "not finite"},
        {"event": "quarantined", "shard": 0, "row": 4, "reason": "not finite"},
    ]
    assert "failed 1 times" in str(play(*script[:2], max_attempts=1).error)


def test_a_killing_row_is_looked_for_in_the_batch_that_was_left_written():
    """Row 7 kills: a careful try, then halves of the batch 6, 7, and 7 alone."""
    ledger_name = "nonce/simulated-0/0.rows"

    def left(script):
        ledger = SimulatedLedger(SHARDS[:1])
        backend = Scripted(ledger, script)
        lost = backend.wait

        def wait(seconds):
            events = lost(seconds)
            for event in events:
                if isinstance(event, Lost):
                    rows = {1: None, 2: b"[6, 7]", 4: b"[7]"}[event.worker]
                    if rows is not None:
                        ledger.storage.replace(ledger_name, rows)
            return events

        backend.wait = wait
        task = Task(SimpleNamespace(skips_rows=True, needs=Needs()), ledger)
        return ledger, backend, run(task, backend, Limits(max_attempts=2))

    script = [Ready(1, {}), Lost(1, "died"), Ready(2, {}), Lost(2, "died"), Ready(3, {})]
    script += [survived(3, 0), Lost(3, "died")]
    every = tuple(range(10))
    script = script[:6] + [Preempted(3, "spot"), Ready(4, {}), Lost(4, "died"), Ready(5, {})]
    ledger, backend, report = left([*script, done(5, 0)])
    assert [s[1:] for s in backend.submitted] == [
        (0, (), PLAIN),
        (0, (), CAREFUL),
        (0, tuple(r for r in every if r != 6), PROBE),
        (0, tuple(r for r in every if r != 7), PROBE),
        (0, tuple(r for r in every if r != 7), PROBE),
        (0, (7,), CAREFUL),
    ]
    assert {n["row"]: n["reason"] for n in ledger.notes if n["event"] == "quarantined"} == {
        7: "its worker died: died"
    }
    assert (report.num_lost, report.num_preempted, report.num_done) == (3, 1, 1)


def test_evidence_is_read_once():
    ledger = SimulatedLedger(SHARDS)
    assert evidence_name(ledger, SHARDS[2]) == "nonce/simulated-0/2.rows"
    assert read_evidence(ledger, SHARDS[2]) == ()
    ledger.storage.replace("nonce/simulated-0/2.rows", b"[20, 21]")
    assert read_evidence(ledger, SHARDS[2]) == (20, 21) and read_evidence(ledger, SHARDS[2]) == ()


@pytest.mark.parametrize(("width", "deaths"), [(2, 1), (3, 1), (4, 2), (5, 2)])
def test_a_row_alone_is_bad_after_one_death_and_of_a_large_batch_after_two(width, deaths):
    case = Case(careful=True)
    assert case.died(tuple(range(width)), "x") is None
    assert (case.width, case.alone) == (width, 0)
    found, alone = None, 0
    while found is None:
        assert case.probe() == case.suspects[: -(-len(case.suspects) // 2)]
        alone += len(case.probed) == 1
        found = case.died(case.probed, "x")
    assert alone == deaths
    assert found == 0 and case.bad == {0: "its worker died: x"} and case.suspects == ()


def test_what_is_bad_is_left_out_in_order_and_probes_leave_out_all_others():
    case = Case(bad={14: "x", 11: "y"})
    assert case.skip(SHARDS[1]) == (11, 14)
    case.suspects = (12, 13, 15)
    assert case.skip(SHARDS[1]) == (10, 11, 14, 15, 16, 17, 18, 19)
    assert case.survived() and case.suspects == (15,)
    assert not Case(suspects=(1,), probed=(1,)).survived()


# A world without chance on its clock


def world(shards=4, **settings):
    given = {"num_actors": 1, "start_seconds": (10.0, 10.0), "shard_seconds": (50.0, 50.0)}
    ledger = SimulatedLedger([Shard(i, i, i + 1) for i in range(shards)])
    backend = SimulatedBackend(World(**{**given, **settings}), ledger)
    task = Task(SimpleNamespace(needs=Needs()), ledger)
    return ledger, run(task, backend, Limits(num_actors=backend.capacity(Needs())))


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [({}, 210), ({"num_actors": 2}, 110), ({"num_actors": 9}, 60), ({"slow_share": 1.0}, 810)],
)
def test_a_world_without_chance_takes_the_seconds_that_it_must(settings, seconds):
    ledger, report = world(**settings)
    assert (report.seconds, report.working_seconds) == (seconds, seconds - 10)
    assert ledger.commits == dict.fromkeys(range(4), 1)
    assert {note["seconds"] for note in ledger.notes} == {200 if "slow_share" in settings else 50}


def test_two_backends_of_no_named_seed_and_of_seed_0_have_one_history():
    def history(**seed):
        ledger = SimulatedLedger([Shard(i, i, i + 1) for i in range(20)])
        backend = SimulatedBackend(World(num_actors=3, crashed=0.1), ledger, **seed)
        task = Task(SimpleNamespace(needs=Needs()), ledger)
        run(task, backend, Limits(num_actors=3, max_attempts=9))
        return ledger.notes

    assert history() == history(seed=0) != history(seed=1)


def test_what_a_careful_worker_left_written_goes_with_its_commit():
    ledger = SimulatedLedger(SHARDS[:1])

    class Writing(Scripted):
        def submit(self, worker, shard, skip, mode):
            super().submit(worker, shard, skip, mode)
            if mode is CAREFUL:
                ledger.storage.replace("nonce/simulated-0/0.rows", b"[1]")

    backend = Writing(ledger, [Ready(1, {}), Lost(1, "died"), Ready(2, {}), done(2, 0)])
    run(Task(SimpleNamespace(skips_rows=True, needs=Needs()), ledger), backend, Limits())
    assert backend.submitted[-1][-1] is CAREFUL and ledger.commits == {0: 1}
    assert read_evidence(ledger, SHARDS[0]) == ()
