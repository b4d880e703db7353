import json

from raypipe.driver.training.curves import Curves, ordered, values_of

STEP = {"step": 2, "loss": 0.5, "rate": 0.1}


ONE = {"step": 2, "mean": 0.25, "of": {"dev": 0.25}, "measure": "RR"}


TWO = {"step": 4, "mean": 0.5, "of": {"a": 0.25, "b": 0.75}, "measure": "RR"}


def test_of_a_step_told_twice_the_last_line_stands_and_notes_are_no_point():
    note = {"step": 2, "note": "resumed"}
    newer = {**STEP, "loss": 0.25}
    assert ordered([TWO, STEP, note, ONE, newer]) == [newer, ONE, TWO]
    assert values_of(STEP) == STEP and values_of(ONE) == {"dev": 0.25}
    assert values_of(TWO) == {"a": 0.25, "b": 0.75, "mean": 0.5}


def test_curves_hold_every_number_of_a_step_but_the_step(tmp_path, monkeypatch):
    import tensorboardX

    points = []

    class Writer:
        def __init__(self, folder, **settings):
            self.folder = folder

        def add_scalar(self, name, value, step):
            points.append((name, value, step))

        def close(self):
            points.append("closed")

    monkeypatch.setattr(tensorboardX, "SummaryWriter", Writer)
    (tmp_path / "train" / "tensorboard").mkdir(parents=True)
    (tmp_path / "train" / "tensorboard" / "old").write_text("x")
    curves = Curves(tmp_path / "train", [STEP])
    assert not (tmp_path / "train" / "tensorboard" / "old").exists()
    curves.add({"step": 3, "note": "x"})
    curves.add(TWO)
    curves.add({"step": 5, "device": "cpu", "loss": 1})
    curves.close()
    assert points == [
        ("train/loss", 0.5, 2), ("train/rate", 0.1, 2),
        ("RR/a", 0.25, 4), ("RR/b", 0.75, 4), ("RR/mean", 0.5, 4), ("train/loss", 1, 5), "closed",
    ]  # fmt: skip
    lines = (tmp_path / "train" / "progress.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 4, 5]
