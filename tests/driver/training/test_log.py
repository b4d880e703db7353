import json
from types import SimpleNamespace

import pytest
from patience import until
from training_body import recipe

from raypipe.driver.training import log
from raypipe.driver.training.log import Follower
from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints import History, write_progress


def step(number, tokens=300, seconds=0.5):
    return {
        "step": number, "loss": 0.25, "rate": 0.001, "gradient_norm": 1.5, "tokens": tokens,
        "seconds": seconds,
    }  # fmt: skip


@pytest.fixture
def job(tmp_path):
    given = recipe(steps=2000, validate={"every": 1000})
    return SimpleNamespace(
        storage=PosixStorage(tmp_path / "s"), folder="weights@mine/f", recipe=given
    )


def test_a_follower_tells_a_step_every_ten_seconds_and_every_measurement(
    job, tmp_path, monkeypatch
):
    now = [100.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(log, "LOOK_SECONDS", 3600.0)
    said = []
    write_progress(job, step(1))  # of an earlier invocation: a point, no line
    follower = Follower(job, tmp_path / "train", said.append)
    with follower:
        follower.write(step(1001))
        follower.write(step(1002))
        follower._look()
        now[0] = 110.0
        follower.write(step(1003))
        follower._look()
        now[0] = 110.1
        follower.write(step(1004))
        follower.write({"step": 1004, "note": "resumed"})
        follower.write({"step": 1004, "measure": "nDCG@10", "mean": 0.5, "of": {"d": 0.5}})
        follower._look()
    assert said == [
        "train: step 1,001 of 2,000: loss 0.2500, rate 1.00e-03, gradient 1.50, 600 tokens/s",
        "train: step 1,004 of 2,000: loss 0.2500, rate 1.00e-03, gradient 1.50, 600 tokens/s",
        "train: step 1,004: resumed",
        "train: step 1,004: nDCG@10 d 0.5000",
    ]
    lines = (tmp_path / "train" / "progress.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 1001, 1002, 1003, 1004, 1004]


def test_lines_are_told_while_the_training_goes_on(job, tmp_path, monkeypatch):
    monkeypatch.setattr(log, "LOOK_SECONDS", 0.001)
    said = []
    with Follower(job, tmp_path / "train", said.append) as follower:
        follower.write({"step": 4, "note": "resumed"})
        until(lambda: said)
        follower.write({"step": 0, "measure": "nDCG@10", "mean": 0.5, "of": {"d": 0.5}})
        until(lambda: len(said) == 2)
    assert said == ["train: step 4: resumed", "train: step 0, the start model: nDCG@10 d 0.5000"]


def test_a_measurement_without_a_line_of_its_own_is_a_point_in_the_end(job, tmp_path):
    history = History(job.storage, job.folder, job.recipe.validate_, job.recipe.steps)
    history.add(1000, [0.25])
    said = []
    with Follower(job, tmp_path / "train", said.append) as follower:
        follower.write(step(999, tokens=10, seconds=0.0))
    assert len(said) == 1 and said[0].endswith(", 10,000 tokens/s")  # over a millisecond at least
    lines = (tmp_path / "train" / "progress.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        step(999, tokens=10, seconds=0.0),
        {"step": 1000, "measure": "nDCG@10", "mean": 0.25, "of": {"d": 0.25}},
    ]
