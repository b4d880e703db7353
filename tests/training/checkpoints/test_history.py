"""Which measurements count, whoever made them and whenever they came."""

import pytest

from raypipe.config.training import Validate
from raypipe.errors import CorruptError
from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints import History, best_of


@pytest.fixture
def history(tmp_path):
    """Of 25 steps, measured every 10; ends two measurements after the best."""
    return History(PosixStorage(tmp_path), "train/f", Validate(every=10, patience=2), 25)


def means(history, step):
    return [(each["step"], each["mean"]) for each in history.counted(step)]


def test_every_tenth_step_and_the_last_are_due(history):
    assert history.due(9) == []
    assert history.due(20) == [10, 20]
    assert history.due(24) == [10, 20]
    assert history.due(25) == [10, 20, 25]
    assert [step for step in range(26) if history.is_due(step)] == [10, 20, 25]


def test_a_measurement_counts_when_all_before_it_are_there(history):
    history.add(20, [0.5, 0.7])
    assert means(history, 20) == []
    assert history.missing(20) == [10]
    assert history.kept(20) == {10, 20}
    history.add(10, [0.2, 0.4])
    assert means(history, 20) == [(10, pytest.approx(0.3)), (20, pytest.approx(0.6))]
    assert history.missing(25) == [25]
    assert history.kept(25) == {20, 25}


def test_the_end_by_patience_is_the_same_however_late_it_is_noticed(tmp_path):
    history = History(PosixStorage(tmp_path), "train/f", Validate(every=10, patience=2), 60)
    for step, value in ((10, 0.5), (20, 0.4), (50, 0.9)):
        history.add(step, [value])
    assert not history.ended(50)
    history.add(30, [0.5])  # as good as the first is no better
    assert history.ended(30) and history.ended(60)
    assert means(history, 60) == [(10, 0.5), (20, 0.4), (30, 0.5)]
    assert history.missing(60) == []
    assert history.kept(60) == {10}
    assert best_of(history.counted(60))["step"] == 10
    history.add(40, [0.9])  # by somebody who did not know of the end
    assert [step for step, _ in means(history, 60)] == [10, 20, 30]
    assert history.kept(60) == {10}


def test_of_a_loss_the_lowest_is_the_best_and_the_first_of_equals(tmp_path):
    lowest = Validate(every=10, patience=1, measure="masked_word_loss")
    history = History(PosixStorage(tmp_path), "train/f", lowest, 40)
    for step, loss in ((10, 3.0), (20, 2.0)):
        history.add(step, [loss])
    assert not history.ended(20) and history.best(history.counted(20))["step"] == 20
    history.add(30, [2.0])
    assert history.ended(30) and history.kept(30) == {20}


def test_a_second_measurement_of_a_step_changes_nothing(history):
    history.add(10, [0.5])
    assert history.add(10, [0.6])["mean"] == 0.5
    assert means(history, 10) == [(10, 0.5)]


def test_nothing_is_due_without_validation(tmp_path):
    history = History(PosixStorage(tmp_path), "train/f", None, 25)
    assert (history.due(25), history.kept(25), history.ended(25)) == ([], set(), False)


def test_a_damaged_measurement_is_refused(history, tmp_path):
    history.add(10, [0.5])
    (path,) = tmp_path.rglob("measurements/*.json")
    path.write_bytes(path.read_bytes().replace(b"0.5", b"0.7"))
    fresh = History(PosixStorage(tmp_path), "train/f", Validate(every=10), 25)
    with pytest.raises(CorruptError, match="measurements/0000010.json"):
        fresh.counted(10)


def test_measurements_end_by_patience_exactly(tmp_path):
    def history(**settings):
        return History(PosixStorage(tmp_path), "t/f", Validate(every=10, **settings), 40)

    for step, value in ((10, 0.25), (20, 0.5), (30, 0.5)):
        history().add(step, [value, value + 0.5])
    assert not history(patience=2).ended(30) and history(patience=1).ended(30)
    assert not history().ended(30) and history().missing(40) == [40]
    assert history(patience=1).missing(40) == [] and history(patience=1).kept(40) == {20}
    assert history().kept(40) == {20, 40} and best_of(history().counted(40))["step"] == 20
    assert best_of([]) is None
    assert history().due(40) == [10, 20, 30, 40] and history().due(39) == [10, 20, 30]
