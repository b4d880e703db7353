"""What a shard is expected to take, and when a second try is worth it; figures by hand."""

from types import SimpleNamespace

from bare_stage import BareStage

from raypipe.cluster.stragglers import Late, Pace, work_of
from raypipe.storage.records import Shard

SHARDS = [Shard(0, 0, 10), Shard(1, 10, 30), Shard(2, 30, 30), Shard(3, 0, 5, 100, 140)]
WORK = {0: 10.0, 1: 20.0, 2: 0.0, 3: 200.0}


def test_work_is_rows_times_span_unless_the_stage_says_more():
    assert work_of(BareStage(), SHARDS) == WORK
    stage = SimpleNamespace(weights_of=lambda shards: [float(s.stop) for s in shards])
    assert work_of(stage, SHARDS) == {0: 10.0, 1: 30.0, 2: 30.0, 3: 5.0}


def paced(*done):
    """A pace after (worker, shard, seconds, rows copied)."""
    found = Pace(WORK)
    for worker, shard, seconds, copied in done:
        found.done(worker, SHARDS[shard], seconds, copied)
    return found


def test_a_worker_has_its_own_pace_and_a_new_one_the_usual():
    assert paced().expected(SHARDS[0], 1) is None
    pace = paced((1, 0, 10.0, 0), (2, 0, 20.0, 0), (3, 0, 90.0, 0))
    assert [pace.expected(SHARDS[1], worker) for worker in (1, 2, 3, 4)] == [20, 40, 180, 40]
    pace.forget(3)
    assert pace.expected(SHARDS[1], 3) == 40
    pace.done(1, SHARDS[1], 60.0, 0)  # its newest shard says most
    assert pace.expected(SHARDS[0], 1) == 30


def test_rows_that_were_copied_are_no_work():
    assert paced((1, 1, 10.0, 15)).expected(SHARDS[0], 1) == 20  # 5 rows in 10 seconds
    for nothing in ((1, 1, 0.1, 20), (1, 2, 3.0, 0), (1, 1, 0.0, 0)):
        assert paced(nothing).expected(SHARDS[0], 1) is None


def test_only_the_newest_100_times_are_known():
    pace = paced(*[(1, 0, 10.0, 0)] * 100, *[(2, 0, 70.0, 0)] * 50)
    assert pace.expected(SHARDS[0], 9) == 40  # half of them 10, half 70
    pace.done(2, SHARDS[0], 70.0, 0)
    assert pace.expected(SHARDS[0], 9) == 70 and len(pace._recent) == 100


def test_what_is_left_is_what_was_expected_and_beyond_that_as_long_again():
    pace = paced((1, 0, 10.0, 0), (2, 0, 40.0, 0))
    lefts = {}
    for worker, elapsed in ((1, 4.0), (1, 9.5), (1, 10.0), (1, 13.0), (2, 13.0)):
        (late,) = pace.latest_last([(SHARDS[0], worker, elapsed)])
        lefts[worker, elapsed] = late.left
    assert lefts == {(1, 4): 6, (1, 9.5): 0.5, (1, 10): 10, (1, 13): 13, (2, 13): 27}
    assert paced().latest_last([(SHARDS[0], 1, 99.0)]) == [Late(SHARDS[0], 0.0)]


def test_the_latest_is_the_one_with_most_left_for_its_work_and_comes_last():
    pace = paced((1, 0, 10.0, 0))
    tries = [(SHARDS[1], 1, 30.0), (SHARDS[0], 1, 20.0), (None, 1, 500.0), (SHARDS[2], 1, 1.0)]
    assert [(late.shard.index, late.left) for late in pace.latest_last(tries)] == [
        (2, 1.0),
        (1, 30.0),
        (0, 20.0),
    ]


def test_a_second_try_has_to_end_well_before_the_first():
    pace = paced((1, 0, 10.0, 0), (2, 0, 30.0, 0))
    for left, worker, least, worth in (
        (15.0, 1, 5.0, False),  # a second try takes 10 seconds
        (15.1, 1, 5.0, True),
        (15.1, 1, 15.1, False),
        (15.1, 2, 5.0, False),
        (45.1, 2, 5.0, True),
    ):
        assert Late(SHARDS[0], left).is_worth_it(pace, worker, least) is worth
    assert not Late(SHARDS[0], 1e9).is_worth_it(paced(), 1, 0.0)
