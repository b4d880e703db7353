"""Each kind of fault is found in a made-up history, and none in a good one."""

import pytest
from histories import History, in_flight_when_killed, problems, redone

A, B = ("toy", "f", 0), ("toy", "f", 1)
PLANNED, PUBLISHED = {A, B}, {A: "a", B: "b"}


def line(event, pid, shard=A, **facts):
    store, fingerprint, index = shard
    told = {"event": event, "pid": pid, "store": store, "fingerprint": fingerprint}
    return told | {"shard": index, "mode": "plain"} | facts


def history(*lines):
    timed = [told | {"time": number} for number, told in enumerate(lines)]
    return History(timed, list({told["pid"]: told for told in timed}.values()))


def worked(pid, shard, sha256):
    return [line("intent", pid, shard), line("acknowledged", pid, shard, sha256=sha256)]


CALM = [*worked(1, A, "a"), *worked(2, B, "b")]


def test_a_calm_history_has_no_problem():
    assert problems(history(*CALM), PLANNED, PUBLISHED) == []
    assert (redone(history(*CALM)), in_flight_when_killed(history(*CALM))) == (0, 0)


def test_a_shard_in_flight_when_its_worker_died_is_done_again():
    found = history(line("intent", 3), *CALM)
    assert problems(found, PLANNED, PUBLISHED) == []
    assert (redone(found), in_flight_when_killed(found)) == (1, 1)


def test_a_shard_committed_just_before_its_worker_died_needs_no_acknowledgement():
    found = history(line("intent", 1), *worked(2, B, "b"))
    assert problems(found, PLANNED, PUBLISHED) == []
    went_on = history(line("intent", 1), *worked(1, B, "b"))
    assert problems(went_on, PLANNED, PUBLISHED) == [
        f"{A}: published, not acknowledged, and its worker went on"
    ]


def test_an_answer_may_be_lost_with_the_process_that_committed_but_not_before():
    found = history(*worked(1, A, "a"), *worked(2, A, "a"), *worked(2, B, "b"))
    assert problems(found, PLANNED, PUBLISHED) == []
    assert (redone(found), in_flight_when_killed(found)) == (1, 1)
    other = history(*worked(1, A, "x"), *worked(2, A, "a"), *worked(2, B, "b"))
    assert problems(other, PLANNED, PUBLISHED) == [f"{A}: acknowledged with other bytes"]


def test_a_late_shard_may_be_acknowledged_by_two_workers_with_one_record():
    late = [line("intent", 1), line("second try", 9), *worked(2, A, "a")]
    rest = [line("acknowledged", 1, sha256="a"), *worked(2, B, "b"), *worked(1, B, "b")]
    found = history(*late, *rest[:-2])
    assert problems(found, PLANNED, PUBLISHED) == []
    assert (redone(found), in_flight_when_killed(found)) == (0, 0)
    other = history(*late, {**rest[0], "sha256": "x"}, *rest[1:3])
    assert f"{A}: acknowledged with other bytes" in problems(other, PLANNED, PUBLISHED)
    untold = history(late[0], *late[2:], rest[0], *worked(2, B, "b"), *worked(1, B, "b"))
    assert f"{A}: acknowledged twice" in problems(untold, PLANNED, PUBLISHED)


@pytest.mark.parametrize(
    ("lines", "published", "told"),
    [
        (CALM, {A: "a"}, [f"{B}: planned and not published", f"{B}: acknowledged, and readers"]),
        (CALM, {A: "a", B: "c"}, [f"{B}: acknowledged, and readers find another"]),
        (CALM[:2], PUBLISHED, [f"{B}: published, and no worker began it"]),
        (
            [*worked(1, A, "a"), *worked(1, B, "b"), *worked(3, A, "a"), line("intent", 3, B)],
            PUBLISHED,
            ["computed again", "acknowledged twice"],
        ),
        (CALM, {**PUBLISHED, ("toy", "f", 2): "c"}, ["published and not planned", "no worker"]),
    ],
)
def test_each_kind_of_fault_is_found(lines, published, told):
    found = problems(history(*lines), PLANNED, published)
    assert len(found) == len(told)
    assert all(part in problem for part, problem in zip(told, found, strict=True))


def test_what_was_published_must_stay():
    told = {"event": "published", "pid": 9, "store": "toy", "fingerprint": "f"}
    stays = history(*CALM, {**told, "records": {"0": "a", "1": "b"}})
    assert problems(stays, PLANNED, PUBLISHED) == []
    other = history(*CALM, {**told, "records": {"0": "x", "1": "b"}})
    assert problems(other, PLANNED, PUBLISHED) == [
        f"{A}: readers no longer find what was published"
    ]
