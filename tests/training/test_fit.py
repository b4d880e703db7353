"""The course of a training by hand: when it saves, measures, resumes and ends."""

import numpy as np
import pytest
from course import Course, Second

from raypipe.config.training import Validate
from raypipe.errors import InputError, Interrupted, RefusedError
from raypipe.training import export as commit
from raypipe.training import fit
from raypipe.training.checkpoints import Checkpoints, History


@pytest.fixture
def course(tmp_path, monkeypatch):
    return lambda **recipe: Course(tmp_path, monkeypatch, **recipe)


def test_a_training_steps_saves_and_measures_when_it_is_due(course):
    found = course()
    found.go()
    assert found.settled == [("cpu", 1)]
    assert found.steps == list(range(10)) and found.kinds("loss") == list(range(1, 11))
    assert found.measured == [0.0, 3.0, 6.0, 9.0, 10.0], "the start model first"
    assert found.kinds("mean") == [0, 3, 6, 9, 10] and found.told[0]["step"] == 0
    # Saved after 3, 4, 6, 8, 9, 10; the newest two stay, and the best one, 6.
    assert found.checkpoints == [6, 9, 10]
    assert set(found.told[1]) == {"step", "tokens", "loss", "seconds", "tokens_per_second"}
    assert found.told[1]["seconds"] >= 0
    assert found.told[1]["tokens_per_second"] > 0
    assert found.kinds("note") == []
    newest = Checkpoints(found.job.storage, found.job.folder)
    assert newest.at(10).facts == {
        "place": {"workers": 1, "threads": 1, "budget_tokens": 99}}  # fmt: skip
    state = newest.load(newest.at(10))
    assert (state["weight.w"].item(), state["first.w"].item()) == (10.0, 20.0)


def test_without_validation_it_saves_every_so_many_steps_and_at_the_end(course):
    found = course(validate_=None, steps=9)
    saved = []
    inner = fit.Checkpoints.save
    fit.Checkpoints.save = lambda self, step, *rest: saved.append(step) or inner(self, step, *rest)
    try:
        found.go()
    finally:
        fit.Checkpoints.save = inner
    assert saved == [4, 8, 9] and found.checkpoints == [8, 9] and found.measured == []


def test_it_ends_by_patience(course):
    found = course(validate_=Validate(every=3, patience=1))
    found.go()
    assert found.steps == list(range(9)) and found.measured == [0.0, 3.0, 6.0, 9.0]
    again = course(validate_=Validate(every=3, patience=1))
    again.go()
    assert again.steps == [] and again.measured == []


def stop_at(found, step):
    stop = Interrupted("stop", 143)
    with pytest.raises(Interrupted) as caught:
        found.go(should_stop=lambda: stop if len(found.steps) == step else None)
    assert caught.value is stop


@pytest.mark.fault(44, "a trainer whose lease was taken over saves and removes 0 checkpoints")
def test_after_a_takeover_nothing_more_is_saved_or_removed(course):
    found = course()
    stop_at(found, 5)
    before = found.checkpoints
    refused = RefusedError("taken over")
    later = course()
    with pytest.raises(RefusedError, match="taken over"):
        later.go(should_stop=lambda: refused if len(later.steps) == 3 else None)
    assert later.steps == [5, 6, 7] and before == [3, 4, 5]
    assert [step for step in later.checkpoints if step > 6] == []


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_stop_leaves_a_checkpoint_and_the_same_command_goes_on(course, step):
    first = course()
    stop_at(first, step)
    assert first.checkpoints[-1] == step
    second = course()
    second.go()
    assert second.steps == list(range(step, 10))
    assert (float(second.weight), float(second.moment)) == (10.0, 20.0)
    assert first.measured + second.measured == [0.0, 3.0, 6.0, 9.0, 10.0]
    assert second.kinds("note") == []


def test_another_place_is_told_where_a_training_is_resumed(course):
    stop_at(course(), 2)
    found = course()
    found.go(threads=2)
    (note,) = [event for event in found.told if "note" in event]
    assert note["step"] == 2 and note["note"].startswith("resumed on {'workers': 1, 'threads': 2")
    assert "'threads': 1" in note["note"].split("before on")[1]


def test_the_start_model_is_measured_once_even_if_no_checkpoint_was_saved(course):
    first, refused = course(), RefusedError("taken over")
    with pytest.raises(RefusedError):
        first.go(should_stop=lambda: refused)
    assert first.measured == [0.0] and first.checkpoints == []
    second = course()
    second.go()
    assert second.steps == list(range(10)) and second.measured == [3.0, 6.0, 9.0, 10.0]


def test_a_training_begun_without_a_measure_of_its_start_gets_none_of_later_weights(
    course, tmp_path
):
    stop_at(course(), 5)
    (start,) = tmp_path.rglob("measurements/0000000.json")
    start.unlink()
    later = course()
    later.go()
    assert later.measured == [6.0, 9.0, 10.0] and fit.history_of(later.job).start() is None


def test_the_start_model_is_never_chosen_nor_counted_for_patience(course):
    found = course(validate_=Validate(every=3, patience=2))
    History(found.job.storage, found.job.folder, None, 10).add(0, [9.0])
    found.go()
    history = fit.history_of(found.job)
    assert history.start()["mean"] == 9.0 and found.measured == [3.0, 6.0, 9.0, 10.0]
    assert history.best(history.counted(10))["step"] > 0 and found.steps == list(range(10))


def test_what_an_interruption_left_unmeasured_is_measured_before_training_goes_on(course):
    found = course()
    found.go()
    found.forget(6, 9, 10)
    late = course()
    late.go()
    assert late.steps == [] and late.measured == [6.0, 9.0, 10.0]
    assert float(late.weight) == 10.0, "the weights of the newest step are back"


def test_after_late_measurements_training_goes_on_from_the_newest_weights(course):
    found = course()
    stop_at(found, 8)
    assert found.measured == [0.0, 3.0, 6.0] and found.checkpoints[-1] == 8
    found.forget(6)
    late = course()
    late.go()
    assert late.measured == [6.0, 9.0, 10.0] and late.steps == [8, 9]
    assert (float(late.weight), float(late.moment)) == (10.0, 20.0), (
        "not those of step 6 and 2 more"
    )


def test_measurements_that_are_missing_need_their_checkpoints(course):
    found = course()
    found.go()
    found.forget(6)
    Checkpoints(found.job.storage, found.job.folder)._remove(6)
    with pytest.raises(InputError, match="train-x: the checkpoints of 1 steps, first 6, have"):
        course().go()


def test_the_other_workers_tell_and_save_nothing(course):
    found = course(validate_=None)
    found.go(Second())
    assert found.told == [] and found.checkpoints == [] and len(found.steps) == 10


def test_a_worker_ends_with_the_first_one_where_another_could_not_open(course, monkeypatch):
    found = course()
    with pytest.raises(InputError, match=fit.ELSEWHERE):
        found.go(Second([1.0]))

    def broken(job):
        raise InputError("no relevant passage")

    monkeypatch.setattr(fit, "DevMeasures", broken)
    with pytest.raises(InputError, match="no relevant passage"):
        found.go()
    assert found.steps == []


@pytest.fixture(autouse=True)
def planned(course, monkeypatch):
    """The driver has planned the store of one shard before its workers commit."""
    from raypipe.storage.records import Shard

    inner = commit.Ledger
    monkeypatch.setattr(
        commit, "Ledger", lambda storage, store, spec: inner(storage, store, spec, [Shard(0, 0, 1)])
    )


def test_history_is_that_of_the_recipe(course):
    found = course(steps=7)
    assert isinstance(fit.history_of(found.job), History)
    assert fit.history_of(found.job).due(7) == [3, 6, 7]
    assert np.isclose(fit.State().step, 0) and fit.State().place == {}
