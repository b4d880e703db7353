"""Scheduling on a virtual clock: what a straggler costs, who goes when; figures by hand."""

import pytest
from bare_stage import BareStage
from simulated import SimulatedBackend, SimulatedLedger, World

from raypipe.cluster.backend import Task
from raypipe.cluster.loop import Loop
from raypipe.cluster.report import Limits
from raypipe.stages.stage import ranges
from raypipe.storage.records import Shard

CALM = {"start_seconds": (10.0, 10.0), "shard_seconds": (50.0, 50.0)}


class Watched(SimulatedBackend):
    """Remembers who was let go when."""

    def release(self, worker):
        self.__dict__.setdefault("gone", []).append((self.now(), worker))
        super().release(worker)


def world(num_actors, shards, *, seed=0, **settings):
    if isinstance(shards, int):
        shards = ranges(shards, 1)
    given = World(**{**CALM, "num_actors": num_actors, **settings})
    return Watched(given, SimulatedLedger(shards), seed)


def done_by(backend, ledger=None, *, skips_rows=False, **limits):
    backend.ledger = ledger or backend.ledger
    stage = BareStage(skips_rows=skips_rows)
    limits = Limits(**{"num_actors": backend.world.num_actors, "max_attempts": 9, **limits})
    return Loop(Task(stage, backend.ledger), backend, limits).run()


def noted(ledger, event):
    return [note for note in ledger.notes if note["event"] == event]


ONE_SLOW = {"paces": (1.0, 1.0, 1.0, 10.0)}


@pytest.mark.fault(19, "one of 4 workers takes ten times as long: 210 seconds in place of 510")
def test_a_straggler_costs_one_more_shard_and_not_its_own_time():
    """Three workers do shards 0 to 2 and 4 to 11 from second 10 to 210; the third is free at 160.

    Then shard 3 is late, by what the others took.
    """
    backend = world(4, 12, **ONE_SLOW)
    report = done_by(backend)
    assert report.seconds == 210.0 and report.num_second_tries == 1
    assert backend.ledger.commits == dict.fromkeys(range(12), 1)
    (tried,), (discarded,) = (noted(backend.ledger, e) for e in ("second try", "discarded"))
    assert tried == {"event": "second try", "shard": 3, "expected_seconds_left": 150.0}
    assert discarded == {"event": "discarded", "shard": 3, "seconds": 200.0, "second": False}
    alone = world(4, 12, **ONE_SLOW)
    assert done_by(alone, least_late_seconds=1e9).seconds == 510.0


def test_a_worker_known_to_be_slow_is_not_waited_for():
    """The slow one took 200 seconds for its first shard; its second is late as it begins."""
    backend = world(2, 6, paces=(1.0, 4.0))
    report = done_by(backend)
    # 1 does shards 0, 2, 3, 4 until 210, when 2 begins shard 5; 1 waits from 210, and tries it.
    assert report.seconds == 260.0 and report.num_second_tries == 1


def test_the_long_shards_come_first():
    """Ten shards of 10 rows and a last one of 100, a second a row, on two workers."""
    shards = [*ranges(100, 10), Shard(10, 100, 200)]
    backend = world(2, shards, shard_seconds=(0.0, 0.0), row_seconds=1.0)
    assert done_by(backend).seconds == 110.0


@pytest.mark.fault(
    1, "64 workers, slow, preempted, crashed and stalled, with second tries: no shard twice"
)
@pytest.mark.parametrize("seed", range(5))
def test_no_shard_is_committed_twice_whatever_befalls_its_tries(seed):
    fates = {"slow_share": 0.2, "preempted": 0.05, "crashed": 0.03, "stalled": 0.03}
    backend = world(64, 500, seed=seed, shard_seconds=(40.0, 80.0), **fates)
    report = done_by(backend)
    assert backend.ledger.commits == dict.fromkeys(range(500), 1)
    assert report.num_done == 500 and report.num_second_tries > 3
    tried, discarded, ended = (
        {note["shard"] for note in noted(backend.ledger, event)}
        for event in ("second try", "discarded", "one of two tries ended")
    )
    assert discarded <= tried and ended <= tried and len(discarded) > 3


def test_a_shard_that_was_tried_twice_and_lost_twice_is_done_by_a_third():
    """Every first try on the slow process and its second are lost with it: a row that kills."""
    backend = world(4, 12, **ONE_SLOW, poison=frozenset({3}))
    report = done_by(backend, skips_rows=True)
    ledger = backend.ledger
    assert ledger.commits == dict.fromkeys(range(12), 1)
    assert ledger.skipped == {**dict.fromkeys(range(12), ()), 3: (3,)}
    (ended,) = noted(ledger, "one of two tries ended")
    assert ended == {"event": "one of two tries ended", "shard": 3, "reason": "crashed"}
    assert report.num_second_tries == 1, "whatever is tried with care is tried by one alone"
    assert [note["row"] for note in noted(ledger, "quarantined")] == [3]


def test_a_process_that_is_slow_or_lost_in_its_work_goes_on_to_the_next_stage():
    backend = world(4, 12, **ONE_SLOW)
    assert done_by(backend).seconds == 210.0
    second = SimulatedLedger(ranges(4, 1))
    report = done_by(backend, second)
    assert second.commits == dict.fromkeys(range(4), 1) and backend.num_processes == 4
    # Ready 5 seconds later, and done 50 later; the slow one leaves its old shard at its next beat,
    # 20 seconds after 210, has the next from 235 on, is late at 310 and is made up for until 361.
    assert report.num_second_tries == 1 and 361 - 210 <= report.seconds <= 362 - 210


def test_the_pool_shrinks_as_the_last_shards_end():
    """At 60 two of eight go on; two may wait for these, and the other four are let go."""
    backend = world(8, 10)
    assert done_by(backend).seconds == 110.0
    assert sorted(backend.gone[:4]) == [(60.0, 5), (60.0, 6), (60.0, 7), (60.0, 8)]
    assert sorted(backend.gone[4:]) == [(110.0, n) for n in (1, 2, 3, 4)]


def test_nobody_waits_for_hours_and_a_late_shard_brings_a_worker_back():
    """Two are done at 510, one waits until 570; the third takes 1,500 seconds, late from 750 on.

    A process that waits is ready 4.5 seconds later, and done 500 later.
    """
    backend = world(3, 3, shard_seconds=(500.0, 500.0), paces=(1.0, 1.0, 3.0), open_seconds=4.5)
    report = done_by(backend)
    assert backend.gone[0] == (510.0, 2) and 570 < backend.gone[1][0] <= 571.0
    assert 760 + 504.5 < report.seconds <= 762 + 504.5
    assert (backend.num_processes, backend._started) == (3, 4), "one worker is brought back"
    assert backend.ledger.commits == dict.fromkeys(range(3), 1)
